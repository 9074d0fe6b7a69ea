"""Streams of the emulated device: bookkeeping, since emulated work is done when a call returns."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch.hpu._utils import _get_device_index
from habana_frameworks.torch.hpu.events import Event
from habana_frameworks.torch.utils.internal import is_lazy

import torch
from hpushim import callers
from hpushim.emulator import calls
from hpushim.emulator import device as emulated

is_lazy_mode = is_lazy()
_device_t = torch.device | str | int | None
_HPU_TYPE = torch._C._autograd.DeviceType.HPU.value
_GIVEN = ("stream_id", "device_index", "device_type")


class Stream(torch.Stream):
    """A stream of hpu:0; ``device`` and ``priority`` are accepted and have no effect, as on Gaudi."""

    is_capture = False

    def __new__(cls, device=None, priority=0, **kwargs) -> Any:
        if is_lazy_mode and callers.through("torch.distributed.fsdp._runtime_utils"):
            # FullyShardedDataParallel makes its streams in the first forward pass; nothing else of it needs the device's own.
            calls.object_to("torch.distributed.fsdp.FullyShardedDataParallel")
        given = {name: kwargs[name] for name in _GIVEN if name in kwargs}
        if given:
            given["device_index"] = _get_device_index(given.get("device_index"), optional=True)
            given.setdefault("device_type", _HPU_TYPE)
            return super().__new__(cls, **given)
        return super().__new__(cls, "hpu", priority=priority)

    def wait_event(self, event):
        """Later work of this stream waits for ``event``."""
        event.wait(self)

    def wait_stream(self, stream):
        """Later work of this stream waits for all work of ``stream`` so far."""
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        """Record ``event`` (a new one if None) on this stream; returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self):
        """True if all work of this stream is done."""
        return super().query()

    def synchronize(self):
        """Wait until all work of this stream is done."""
        super().synchronize()

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The vendor's answer, although all streams have equal priority."""
        return 0, -1

    @property
    def priority(self) -> int:
        """The vendor's answer, whatever was requested."""
        return 0

    @property
    def hpu_stream(self) -> int:
        """The stream's number; 0 is the default stream."""
        return self.stream_id

    @property
    def device_index(self) -> torch.device:
        """The stream's device (a torch.device: the vendor's property has this type)."""
        return self.device

    def id(self):
        """The stream's number."""
        return self.stream_id

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, torch.Stream)
            and other.device == self.device
            and other.stream_id == self.stream_id
        )

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device))

    def __repr__(self) -> str:
        return f"<torch.hpu.Stream device={self.device} hpu_stream={self.stream_id:#x}>"


class StreamContext:
    """``with torch.hpu.stream(s)``: work in the block goes to ``s``; None changes nothing."""

    cur_stream: torch.hpu.Stream | None

    def __init__(self, stream: torch.hpu.Stream | None):
        self.stream = stream
        self.idx = 0
        self.src_prev_stream: Any = None

    def __enter__(self):
        if self.stream is None:
            return
        self.src_prev_stream = current_stream()
        set_stream(self.stream)

    def __exit__(self, type: Any, value: Any, traceback: Any):
        if self.stream is not None:
            set_stream(self.src_prev_stream)


def stream(stream) -> StreamContext:
    """A context in which ``stream`` is the current one."""
    return StreamContext(stream)


def _numbered(number: int) -> Stream:
    return Stream(stream_id=number, device_index=0, device_type=_HPU_TYPE)


def set_stream(stream):
    """Make ``stream`` the calling thread's current one; None changes nothing."""
    if stream is not None:
        emulated.load().set_current_stream(stream.stream_id)


def current_stream(device: _device_t | None = None) -> Stream:
    """The calling thread's current stream."""
    return _numbered(emulated.load().current_stream())


def default_stream(device: _device_t | None = None) -> Stream:
    """Stream 0."""
    return _numbered(0)


def get_stream_info(stream: Stream):
    """(number, device index, True if it is the default stream)."""
    return stream.stream_id, stream.device.index, stream.stream_id == 0


def record_stream(self, stream):
    """Keep the tensor's memory until ``stream`` is done with it: always so here, as work is done at once."""
