"""Mechanism C: an operator that reaches the CUDA dispatch key is run again with ``device=hpu``.

Without a CUDA tensor anywhere, an operator gets there in one way only: torch chooses its kernel by the device argument
(``BackendSelect``). Those of them that have no kernel for CUDA, in a CPU build about a dozen, get one here; everything
else with a device argument decomposes to them. Whatever name the caller held, from Python, TorchScript or another
thread, ``device="cuda"`` that reaches ATen lands on HPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices
from hpushim.shim.mechanisms.in_place import Undo

_KEY = "CUDA"


def install() -> Undo:
    """Registers the kernels; returns how to undo it."""
    import torch

    # One by one: a fallback for the whole key makes torch rebuild the tables of all its operators, four times the cost
    # of the rest of the net, and again when it is undone.
    libraries: dict[str, Any] = {}
    for qualified in _chosen_by_device(torch._C):
        namespace, _, name = qualified.partition("::")
        if namespace not in libraries:
            libraries[namespace] = torch._C._dispatch_library("IMPL", namespace, _KEY, __file__)
        libraries[namespace].impl(name, _KEY, _again_on_hpu(namespace, name), False)

    def undo() -> bool:
        for library in libraries.values():
            library.reset()
        return True

    return undo


def _chosen_by_device(native: Any) -> list[str]:
    """The operators whose kernel the device argument chooses and that have none for CUDA: ``namespace::name.overload``."""
    has_kernel = native._dispatch_has_computed_kernel_for_dispatch_key
    names = native._dispatch_get_registrations_for_dispatch_key("BackendSelect")
    return [name for name in names if not has_kernel(name, _KEY)]


def _again_on_hpu(namespace: str, name: str) -> Callable[..., Any]:
    """A kernel that runs the operator again with every CUDA device in its arguments mapped."""
    found: list[Any] = []

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if not found:
            found.append(_operator(namespace, name))
        kwargs = {key: _mapped(value) for key, value in kwargs.items()}
        return found[0](*map(_mapped, args), **kwargs)

    return kernel


def _operator(namespace: str, name: str) -> Any:
    import torch

    base, _, overload = name.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def _mapped(value: Any) -> Any:
    import torch

    return devices.mapped(value) if isinstance(value, torch.device) else value
