"""Moving and asking tensors and modules: ``.to("cuda")``, ``.cuda()``, ``.is_cuda``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices
from hpushim.shim.patch import APPROXIMATE, EXACT, patch

_mapped = devices.mapped


@patch("torch:Tensor.to", "torch.nn:Module.to", how="method", level=EXACT, factory=True)
def to(original: Callable[..., Any]) -> Callable[..., Any]:
    """``x.to("cuda")``, ``x.to(0)``, ``x.to(device=…)``."""

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            first = args[0]
            if type(first) is str or type(first) is int or getattr(first, "type", None) == "cuda":
                args = (_mapped(first), *args[1:])
        if kwargs and "device" in kwargs:
            kwargs["device"] = _mapped(kwargs["device"])
        return original(self, *args, **kwargs)

    return to


@patch("torch:Tensor.cuda", "torch.nn:Module.cuda", how="method", level=EXACT)
def cuda(
    original: Callable[..., Any], self: Any, device: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """``x.cuda()``, ``model.cuda(rank)``: moves to the HPU."""
    kwargs.pop("memory_format", None) if kwargs.get("memory_format", 0) is None else None
    if args:
        kwargs["non_blocking"] = args[0]
    return self.to(devices.INDEXED, **kwargs)


@patch("torch:Tensor.is_cuda", how="getter", level=APPROXIMATE, factory=True)
def is_cuda(original: Callable[..., Any]) -> Callable[..., Any]:
    """True on HPU: code that asks wants to know whether the tensor is on the accelerator."""

    def is_cuda(self: Any) -> bool:
        return self.device.type == "hpu" or bool(original(self))

    return is_cuda


@patch(
    "torch:tensor",
    "torch:as_tensor",
    "torch:asarray",
    "torch:sparse_coo_tensor",
    "torch:sparse_csr_tensor",
    "torch:sparse_csc_tensor",
    "torch:sparse_bsr_tensor",
    "torch:sparse_bsc_tensor",
    "torch:sparse_compressed_tensor",
    "torch.nested:nested_tensor",
    "torch.nested:as_nested_tensor",
    level=EXACT,
    factory=True,
)
def from_data(original: Callable[..., Any]) -> Callable[..., Any]:
    """Factories that ask the device guard for the current index before any operator runs."""

    def from_data(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = _mapped(kwargs["device"])
        return original(*args, **kwargs)

    return from_data


@patch("torch.jit._builtins:_find_builtin", level=EXACT, row="torch.jit.script", factory=True)
def find_builtin(original: Callable[..., Any]) -> Callable[..., Any]:
    """TorchScript knows built-in functions by identity; a replaced one is looked up as its original."""

    def find_builtin(function: Any) -> Any:
        return original(getattr(function, "__hpushim_original__", function))

    return find_builtin


@patch("torch.nn:Module.to_empty", how="method", level=EXACT)
def to_empty(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``module.to_empty(device="cuda")``."""
    if args:
        args = (_mapped(args[0]), *args[1:])
    if "device" in kwargs:
        kwargs["device"] = _mapped(kwargs["device"])
    return original(self, *args, **kwargs)
