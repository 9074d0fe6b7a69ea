"""Events of the emulated device."""

from __future__ import annotations

import time
from typing import Any

import torch


class Event(torch.Event):
    """An event of hpu:0. Emulated work is done when a call returns, so an event is complete once recorded."""

    _timed = False
    _at: int | None = None

    def __new__(cls, enable_timing=False) -> Any:
        event = super().__new__(cls, "hpu", enable_timing=enable_timing)
        event._timed = bool(enable_timing)
        return event

    def record(self, stream=None):
        """Record on ``stream``, or on the current one."""
        if stream is None:
            super().record()
        else:
            super().record(stream)
        self._at = time.perf_counter_ns()

    def wait(self, stream=None):
        """Make later work of ``stream`` (default: the current one) wait for this event."""
        if stream is None:
            super().wait()
        else:
            super().wait(stream)

    def query(self):
        """True if the recorded work is done."""
        return super().query()

    def elapsed_time(self, end_event):
        """Milliseconds of host time between the two records (emulated: not a device time)."""
        # torch's own method refuses subclasses of torch.Event as its argument, so the types keep their own clock.
        for event in (self, end_event):
            if not getattr(event, "_timed", False):
                raise ValueError("elapsed_time needs events made with enable_timing=True")
            if event._at is None:
                raise RuntimeError("elapsed_time needs both events recorded; call record() first")
        return (end_event._at - self._at) / 1e6

    def synchronize(self):
        """Wait until the recorded work is done."""
        super().synchronize()

    @property
    def hpu_event(self) -> int:
        """The event's handle; 0 before the first record."""
        return self.event_id

    def __repr__(self) -> str:
        return (
            f"<torch.hpu.Event {self.event_id:#x}>"
            if self._at
            else "<torch.hpu.Event uninitialized>"
        )
