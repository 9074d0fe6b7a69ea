"""Operators of the user's own: a kernel that is registered for CUDA is registered for HPU as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim import callers
from hpushim.shim import log
from hpushim.shim.patch import WARN, patch

Original = Callable[..., Any]

_MACHINERY = ("torch.library", "torch._library", "hpushim", "functools", "contextlib")


@patch("torch.library:Library.impl", row="torch.library.Library.impl", level=WARN)
def library_impl(
    original: Original, self: Any, op_name: Any, fn: Any, dispatch_key: str = "", *args: Any, **kwargs: Any
) -> Any:  # fmt: skip
    """``Library("lib", "IMPL").impl("op", kernel, "CUDA")``; ``custom_op(device_types="cuda")`` and ``torch.library.impl`` end here."""
    original(self, op_name, fn, dispatch_key, *args, **kwargs)
    key = dispatch_key or self.dispatch_key
    if key not in _KEYS or not _by_user():
        return
    name = str(op_name)
    if isinstance(op_name, str) and "::" not in name:
        name = f"{self.ns}::{name}"
    if self.ns in _OF_TORCH:
        log.warn(
            "HPU711",
            f"{name}: your kernel for {key} is not used on HPU, which keeps its own; "
            f"register it for {_KEYS[key]} as well, if it is made of torch operators",
        )
        return
    _say(name)
    original(_taking_hpu(self), op_name, fn, _KEYS[key], *args, **kwargs)


_KEYS = {"CUDA": "HPU", "AutogradCUDA": "AutogradHPU", "AutocastCUDA": "AutocastHPU"}
_OF_TORCH = ("aten", "prims", "prim", "_")
_SIBLING = "_hpushim_sibling"


def _taking_hpu(library: Any) -> Any:
    """The library itself, or where it takes a key of CUDA's only one beside it, which lives as long."""
    if library.dispatch_key not in _KEYS:
        return library
    if not hasattr(library, _SIBLING):
        setattr(library, _SIBLING, type(library)(library.ns, "IMPL", _KEYS[library.dispatch_key]))
    return getattr(library, _SIBLING)


def _say(what: str) -> None:
    log.warn(
        "HPU711",
        f"{what}: the kernel for CUDA is registered for HPU as well; one that calls torch operators runs, "
        "one that launches CUDA or Triton code does not",
    )


def _by_user() -> bool:
    """Whether the registration was requested outside torch: by the first module that is not its machinery."""
    return callers.outside(*_MACHINERY).partition(".")[0] != "torch"
