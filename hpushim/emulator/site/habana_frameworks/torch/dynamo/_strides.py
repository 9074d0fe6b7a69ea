"""Layouts under torch.compile.

torch takes an hpu device to give only contiguous results, as Gaudi does. The emulated device runs the CPU's
kernels, which keep permuted layouts, and a trace made under the other assumption would record views that fail.
So the two questions that torch asks are answered for the emulated device: layouts are as on the CPU.
"""

from __future__ import annotations

import sys


def _any_layout(device: object) -> bool:
    return True


def agree_with_torch() -> None:
    """Make torch's shape propagation expect the layouts that the emulated device gives."""
    for name in ("torch._subclasses.fake_impls", "torch._refs"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "is_noncontiguous_supported"):
            module.is_noncontiguous_supported = _any_layout
