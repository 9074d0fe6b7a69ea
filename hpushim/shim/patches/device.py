"""``torch.device`` and every operator called with ``device="cuda"``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, dispatcher
from hpushim.shim.in_place import Undo
from hpushim.shim.patch import APPROXIMATE, EXACT, patch


@patch("torch:device", how="constructor", level=EXACT)
def device(original: Callable[..., Any], cls: type, *args: Any, **kwargs: Any) -> Any:
    """``torch.device("cuda:3")``, ``("cuda", 3)``, ``(type=…, index=…)`` and a bare index are ``hpu:0``."""
    first = args[0] if args else kwargs.get("type", kwargs.get("device"))
    if not isinstance(first, str):
        if isinstance(first, int) and first > 0:
            return original(cls, devices.INDEXED)
        return original(cls, *args, **kwargs)
    if first[:4] != "cuda":
        return original(cls, *args, **kwargs)
    if first == "cuda":
        index = args[1] if len(args) > 1 else kwargs.get("index")
        return original(cls, devices.DEVICE if index is None else devices.INDEXED)
    return original(cls, devices.text(first), *args[1:], **kwargs)


@patch("torch:Generator", how="constructor", level=APPROXIMATE)
def generator(original: Callable[..., Any], cls: type, *args: Any, **kwargs: Any) -> Any:
    """``torch.Generator("cuda")`` is an HPU generator; it draws other numbers than a CUDA one of that seed."""
    if args:
        return original(cls, devices.mapped(args[0]), *args[1:], **kwargs)
    if kwargs.get("device") is not None:
        kwargs["device"] = devices.mapped(kwargs["device"])
    return original(cls, **kwargs)


@patch("torch", how="hook", row="torch.dispatch.CUDA", level=EXACT)
def operators() -> Undo:
    """Operators that reach the CUDA dispatch key run on HPU."""
    return dispatcher.install()
