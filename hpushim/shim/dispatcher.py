"""Mechanism C: an operator that reaches the CUDA dispatch key is run again with ``device=hpu``.

In a CPU build of torch no CUDA kernel exists, so in practice two operators arrive here, the empty factories
that everything else decomposes to. Whatever name the caller held, from Python, TorchScript or another
thread, ``device="cuda"`` that reaches ATen lands on HPU.
"""

from __future__ import annotations

from typing import Any

from hpushim.shim import devices
from hpushim.shim.in_place import Undo


def install() -> Undo:
    """Registers the fallback; returns how to undo it. Needs torch 2.6 or newer (``Library.fallback``)."""
    import torch

    library = torch.library.Library("_", "IMPL", "CUDA")
    library.fallback(_again_on_hpu, "CUDA")

    def undo() -> bool:
        library._destroy()
        return True

    return undo


def _again_on_hpu(operator: Any, *args: Any, **kwargs: Any) -> Any:
    import torch

    def mapped(value: Any) -> Any:
        if isinstance(value, torch.device):
            return devices.mapped(value)
        if isinstance(value, torch.Tensor) and value.device.type == "cuda":
            return value.to(devices.target())
        return value

    kwargs = {key: mapped(value) for key, value in kwargs.items()}
    return operator(*[mapped(value) for value in args], **kwargs)
