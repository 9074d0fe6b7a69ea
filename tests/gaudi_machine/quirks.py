"""Part of the pretend machine's driver: what is special about this machine, by the variables that start with PRETEND."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import warnings
from typing import Any

BUSY = "synStatus=8 [Device not found] Device acquire failed."
_kept: list[Any] = []


def apply() -> None:
    """Called when the vendor's package has been imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith("habana_frameworks"):  # the real one has no words for what it lacks
            vars(module).pop("__getattr__", None)
    _cards()
    for name in filter(None, os.environ.get("PRETEND_WITHOUT", "").split(",")):
        take_away(name)
    for name, text in json.loads(os.environ.get("PRETEND_DIFFERENT", "{}")).items():
        put(name, eval(text))


def _cards() -> None:
    import torch

    count = int(os.environ.get("PRETEND_CARDS", "1"))
    if count != 1:
        for module in (torch.hpu, sys.modules["habana_frameworks.torch.hpu._device"]):
            module.device_count = lambda: count  # type: ignore[attr-defined]
    if not count or os.environ.get("PRETEND_BUSY") == "1":
        _refuse_every_tensor()


def _refuse_every_tensor() -> None:
    import torch

    def acquire(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(BUSY)

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about a second kernel
        for name in ("empty.memory_format", "empty_strided"):
            library.impl(name, acquire, "HPU")
    _kept.append(library)


def _place(name: str) -> tuple[Any, str]:
    holder, _, last = name.rpartition(".")
    if holder.startswith("torch.hpu"):
        import torch

        found: Any = torch
        for part in holder.split(".")[1:]:
            found = getattr(found, part)
        return found, last
    return importlib.import_module(holder), last


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def take_away(name: str) -> None:
    """This release has no such module or attribute."""
    if name in sys.modules or (name.startswith("habana") and _is_module(name)):
        sys.modules[name] = None  # type: ignore[assignment]
        return
    holder, last = _place(name)
    if isinstance(vars(holder), dict):
        vars(holder).pop(last, None)


def put(name: str, value: Any) -> Any:
    """This release has something else there; returns what was there."""
    holder, last = _place(name)
    before = getattr(holder, last, None)
    setattr(holder, last, value)
    return before
