"""Moving and asking tensors and modules: ``.to("cuda")``, ``.cuda()``, ``.is_cuda``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from hpushim.shim import devices
from hpushim.shim.mechanisms import c_function
from hpushim.shim.patch import APPROXIMATE, EXACT, patch

_mapped = devices.mapped
_NOTHING = object()


@patch("torch:Tensor.to", "torch.nn:Module.to", level=EXACT, factory=True)
def to(original: Callable[..., Any]) -> Callable[..., Any]:
    """``x.to("cuda")``, ``x.to(0)``, ``x.to(device=…)``."""
    import torch

    # Devices made once: torch takes them faster than the text that they were written as.
    known = {"cuda": torch.device(devices.DEVICE), "cuda:0": devices.target()}

    # A single argument is named, since making a tuple of it takes as long as a third of a move that has nothing to do.
    def to(self: Any, first: Any = _NOTHING, /, *more: Any, **kwargs: Any) -> Any:
        if more or kwargs or first is _NOTHING:
            args = () if first is _NOTHING else (first, *more)
            return _of_many(original, self, args, kwargs)
        kind = type(first)
        if kind is str:
            return original(self, known.get(first) or _mapped(first))
        if kind is int:
            first = _mapped(first)
        try:
            return original(self, first)
        except RuntimeError:
            # Read only now: reading a device's type costs as much as such a move, too.
            # A string of a class of its own (`class Device(str, Enum)`) comes here as well.
            if getattr(first, "type", None) != "cuda" and not isinstance(first, str):
                raise
            return original(self, _mapped(first))

    # The Python function alone takes half as long as such a move.
    to.__hpushim_straight__ = _not_cuda()  # type: ignore[attr-defined]
    return to


def _not_cuda() -> c_function.Straight | None:
    """A device that is not CUDA's, as it lies in memory; None where devices lie there in another way than expected."""
    import torch

    at = object.__basicsize__  # c10::Device, which begins with its type
    types = {"cpu": 0, "meta": 14, devices.DEVICE: 15, devices.INDEXED: 15}  # c10::DeviceType
    for name, number in types.items():
        device = torch.device(name)
        if type(device) is not torch.device or device.__sizeof__() <= at:
            return None
        if ctypes.string_at(id(device) + at, 1)[0] != number:
            return None
    return c_function.Straight(torch.device, at, 1)


def _of_many(
    original: Callable[..., Any], self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if args:
        first = args[0]
        if isinstance(first, str) or type(first) is int or getattr(first, "type", None) == "cuda":
            args = (_mapped(first), *args[1:])
    if "device" in kwargs:
        kwargs["device"] = _mapped(kwargs["device"])
    return original(self, *args, **kwargs)


@patch("torch:Tensor.cuda", level=EXACT, factory=True)
def cuda(original: Callable[..., Any]) -> Callable[..., Any]:
    """``x.cuda()``, ``x.cuda(rank, non_blocking=True)``: moves to the HPU."""
    import torch
    from torch.overrides import handle_torch_function, has_torch_function_unary

    move = torch.Tensor.to
    here = devices.target()

    def cuda(self: Any, *args: Any, **kwargs: Any) -> Any:
        if has_torch_function_unary(self):
            return handle_torch_function(torch.Tensor.cuda, (self,), self, *args, **kwargs)
        if not args and not kwargs:
            return move(self, here)
        if len(args) > 1:
            kwargs["non_blocking"] = args[1]
        given = kwargs.pop("device", None)
        _only_cuda(args[0] if args else given)
        if kwargs.get("memory_format", here) is None:
            del kwargs["memory_format"]
        return move(self, here, **kwargs)

    return cuda


def _only_cuda(device: Any) -> None:
    """Raises what ``cuda`` raises for another device."""
    import torch

    placed = _mapped(device)
    if placed is None or type(placed) is int:
        return
    if torch.device(placed).type != devices.DEVICE:
        raise RuntimeError("Invalid device, must be cuda device")


@patch("torch.nn:Module.cuda", level=EXACT)
def module_cuda(original: Callable[..., Any], self: Any, device: Any = None) -> Any:
    """``model.cuda(rank)``: moves every parameter and buffer."""
    _only_cuda(device)
    return original(self)


@patch("torch:Tensor.is_cuda", how="getter", level=APPROXIMATE, factory=True)
def is_cuda(original: Callable[..., Any]) -> Callable[..., Any]:
    """True on HPU: code that reads it wants to know whether the tensor is on the accelerator."""
    from torch.overrides import has_torch_function_unary

    # The one that a process has, compared as a whole: its type is slow to read.
    here = devices.target()

    def is_cuda(self: Any) -> bool:
        if has_torch_function_unary(self):
            return original(self)  # type: ignore[no-any-return]
        return self.device == here or original(self)  # type: ignore[no-any-return]

    return is_cuda


@patch("torch.nn:Module.to_empty", level=EXACT)
def to_empty(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``module.to_empty(device="cuda")``."""
    if args:
        args = (_mapped(args[0]), *args[1:])
    if "device" in kwargs:
        kwargs["device"] = _mapped(kwargs["device"])
    return original(self, *args, **kwargs)


@patch("torch._C._nn:_parse_to", row="torch.Tensor.to", level=EXACT, factory=True)
def parse_to(original: Callable[..., Any]) -> Callable[..., Any]:
    """What reads the arguments of ``to`` for modules, and for containers that move what they hold themselves."""

    def parse(*args: Any, **kwargs: Any) -> Any:
        if args and not hasattr(args[0], "dtype"):
            args = (_mapped(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = _mapped(kwargs["device"])
        return original(*args, **kwargs)

    return parse
