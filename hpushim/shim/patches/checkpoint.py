"""Checkpoints of CUDA runs, and ``torch.load(map_location="cuda…")``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log, vendor
from hpushim.shim.mechanisms import in_place
from hpushim.shim.mechanisms.in_place import Undo
from hpushim.shim.patch import EXACT, WARN, patch

# Before torch's own entries, which start at 10.
_PRIORITY = 5


@patch("torch.serialization", how="hook", row="torch.load(map_location=)", level=EXACT)
def cuda_locations() -> Undo:
    """Storages tagged ``cuda:N``, by the file or by map_location, are restored on HPU.

    torch.load itself stays as it is: the tag is claimed in torch's registry of packages.
    """
    from torch import serialization

    entry = (_PRIORITY, _tag, _restore)
    registry = serialization._package_registry
    serialization.register_package(*entry)

    def undo() -> bool:
        # The registry has no way to unregister; the entry is a plain tuple in a plain list.
        for found in [e for e in registry if e[1] is _tag and e[2] is _restore]:
            registry.remove(found)
        return True

    return undo


@patch("torch.serialization:_get_restore_location", row="torch.load(map_location=)", level=EXACT)
def restore_location(original: Callable[..., Any], map_location: Any) -> Any:
    """A dict or a function meets the tag ``cuda:N`` where a checkpoint of this machine says ``hpu:N``: CUDA's code knows no other."""
    if isinstance(map_location, dict):
        return original(_Locations(map_location))
    if callable(map_location):
        return original(lambda storage, location: map_location(storage, _cuda(location)))
    return original(map_location)


class _Locations(dict[Any, Any]):
    """A user's ``map_location``; a tag of HPU that it does not name is looked up as CUDA's."""

    def get(self, location: Any, default: Any = None) -> Any:
        """The place for a tag; ``default`` where the dict names it in neither spelling."""
        if location in self:
            return self[location]
        return super().get(_cuda(location), default)


def _cuda(location: Any) -> Any:
    """CUDA's spelling of a tag of HPU; any other as it is."""
    kind, colon, index = str(location).partition(":")
    return f"cuda{colon}{index}" if kind == devices.DEVICE else location


@patch("torch.serialization", how="hook", row="torch.load(map_location=)", level=WARN)
def reads_to_the_cpu() -> Undo | None:
    """Lazy mode reads everything to the CPU and moves it where map_location says; a function gets each tensor and its device."""
    if not vendor.is_lazy():
        return None
    import torch

    original = in_place.clone(torch.load)

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        chosen = map_location
        if callable(chosen):
            # CUDA's code expects the text of a place there.
            return original(f, lambda tensor, place: chosen(tensor, str(place)), *args, **kwargs)
        if chosen is None or (isinstance(chosen, dict) and "cpu" not in chosen):
            log.warn(
                "HPU613",
                "in lazy mode Gaudi reads a checkpoint to the CPU, unless map_location names the device",
            )
        return original(f, chosen, *args, **kwargs)

    return in_place.exchange_code(torch.load, load)


def _tag(storage: Any) -> str | None:
    """``HPUSHIM_SAVE_TAG=cuda`` writes checkpoints that load on CUDA without map_location."""
    if os.environ.get("HPUSHIM_SAVE_TAG") == "cuda" and storage.device.type == devices.DEVICE:
        return "cuda:0"
    return None


def _restore(storage: Any, location: str) -> Any:
    """The storage on HPU for a CUDA tag; None, which means somebody else's, for any other."""
    if not devices.is_cuda_text(location):
        return None
    from torch.serialization import default_restore_location

    return default_restore_location(storage, devices.text(location))
