"""Stream and Event types of the emulated device.

torch's own ``torch.Stream`` and ``torch.Event`` do the work. Their methods refuse subclasses, so these two types
create the plain object and answer ``isinstance`` for any stream or event of an hpu device.
"""

from __future__ import annotations

from typing import Any

import torch

from hpushim.emulator import device


class _OfHpu(type):
    """Types whose instances are torch objects of device type hpu."""

    _plain: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._plain) and _is_hpu(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or subclass is cls._plain


def _is_hpu(instance: Any) -> bool:
    found = instance.device
    return found is None or found.type == "hpu"


class Stream(metaclass=_OfHpu):
    """A stream of the emulated device: bookkeeping only, since emulated work is done when the call returns."""

    _plain = torch.Stream

    def __new__(cls, device: Any = None, priority: int = 0, **known: Any) -> Any:
        """A new stream of hpu:0, or (stream_id=, device_index=, device_type=) the one with that id."""
        if known:
            return torch.Stream(**known)
        return torch.Stream(_hpu(device), priority=priority)


class Event(metaclass=_OfHpu):
    """An event of the emulated device; elapsed_time() is host time between the two records, in milliseconds."""

    _plain = torch.Event

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Any:
        return torch.Event("hpu", enable_timing=enable_timing, blocking=blocking)


def _hpu(where: Any) -> torch.device:
    if where is None or isinstance(where, int):
        return torch.device("hpu", where or 0)
    return torch.device(where)


def current_stream(where: Any = None) -> Any:
    """The calling thread's current stream."""
    number = device.load().current_stream()
    return torch.Stream(stream_id=number, device_index=0, device_type=torch.device("hpu").type)


def default_stream(where: Any = None) -> Any:
    """Stream 0."""
    return torch.Stream(stream_id=0, device_index=0, device_type=torch.device("hpu").type)


def set_stream(stream: Any) -> None:
    """Make ``stream`` the calling thread's current stream."""
    device.load().set_current_stream(stream.stream_id)
