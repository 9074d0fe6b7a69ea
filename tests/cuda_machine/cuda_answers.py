"""What a program can see of a value: its type, text, number, device. Words of JSON, so that two machines can be compared."""

from __future__ import annotations

import re
import types
from typing import Any

_FEW = 16  # numbers of a tensor, items of a container
_ADDRESS = re.compile(r"0x[0-9a-f]+|\bat [0-9]+\b|/tmp/[^\s'\"]*")
_DEEP = 3


def described(value: Any, deep: int = 0) -> Any:
    """The value in words; None for what says nothing, such as a function."""
    import torch

    if isinstance(value, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType)):
        return None
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return [type(value).__name__, _plain(value)]
    if isinstance(value, BaseException):
        return [type(value).__name__, _plain(str(value).partition("\n")[0])]
    if isinstance(value, type):
        return ["class", f"{value.__module__}.{value.__qualname__}"]
    if isinstance(value, (list, tuple, dict)) and deep < _DEEP:
        items = list(value.items()) if isinstance(value, dict) else list(value)
        return [
            type(value).__name__,
            len(items),
            [described(one, deep + 1) for one in items[:_FEW]],
        ]
    if isinstance(value, (torch.device, torch.dtype)):
        return [type(value).__name__, str(value)]
    kind = type(value)
    return ["object", f"{kind.__module__}.{kind.__qualname__}"]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _ADDRESS.sub("…", value)
    return repr(value) if isinstance(value, (float, complex)) else value


def _tensor(value: Any) -> list[Any]:
    numbers: Any = None
    if value.layout == _strided() and not value.is_nested and value.device.type != "meta":
        flat = value.detach().cpu().flatten()[:_FEW]
        numbers = flat.tolist() if not flat.is_complex() else [str(one) for one in flat.tolist()]
        numbers = [repr(one) if isinstance(one, float) else one for one in numbers]
    shape = None if value.is_nested else list(value.shape)
    return [
        "tensor",
        value.type(),
        str(value.dtype),
        str(value.device),
        shape,
        value.requires_grad,
        numbers,
    ]


def _strided() -> Any:
    import torch

    return torch.strided


def of(scope: dict[str, Any], given: set[str]) -> dict[str, Any]:
    """What a snippet's own names hold when it is through; what cannot be described is left out."""
    found = {}
    for name, value in scope.items():
        if name in given or name.startswith("_"):
            continue
        try:
            words = described(value)
        except Exception as error:
            words = ["not described", type(error).__name__]
        if words is not None:
            found[name] = words
    return found
