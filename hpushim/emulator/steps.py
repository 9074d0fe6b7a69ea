"""The steps of a training as its optimizers take them: what happened in each, and how much memory it took.

A hook of torch's after each optimizer's step reads the device's counters. It changes nothing of the run: it is beside the
program's own hooks, fails silently, and is left out of what torch.compile traces. Memory is bounded: beyond a number of
entries, neighbours are added up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hpushim.emulator import device

MOST_ENTRIES = 256
_MOST_OPTIMIZERS = 64
#: Counters that an entry holds, as what was added since the step before.
COUNTED = (
    "operators",
    "graphs",
    "recompilations",
    "recompilations_by_number",
    "host_syncs",
    "host_to_device",
    "device_to_host",
    "host_to_device_bytes",
    "device_to_host_bytes",
    "cpu_fallbacks",
    "collectives",
)


class Timeline:
    """Entries of one or more steps each. The first step stays alone: it holds what came before the training too."""

    def __init__(self) -> None:
        self.steps = 0
        self.entries: list[dict[str, int]] = []
        self._stride = 1
        self._before = dict.fromkeys(COUNTED, 0)
        self._optimizers: set[int] = set()
        self._nested: dict[int, int] = {}
        self.parameters: dict[str, int] = {}

    def begin(self, optimizer: Any) -> None:
        """An optimizer's step begins."""
        if not self.steps and not self.parameters:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    where = parameter.device.type
                    self.parameters[where] = self.parameters.get(where, 0) + 1
        if len(self._nested) < _MOST_OPTIMIZERS:
            self._nested[id(optimizer)] = self.steps

    def end(self, optimizer: Any) -> None:
        """It has ended. The step of an optimizer that has had another one step is that one's."""
        if self._nested.pop(id(optimizer), self.steps) != self.steps:
            return
        self.steps += 1
        if len(self._optimizers) < _MOST_OPTIMIZERS:
            self._optimizers.add(id(optimizer))
        totals = device.load().totals()
        entry = {name: int(totals[name]) - self._before[name] for name in COUNTED}
        self._before = {name: int(totals[name]) for name in COUNTED}
        memory = device.memory_stats()
        entry["in_use_bytes"] = memory["in_use"]
        entry["peak_bytes"] = device.load().take_window_peak()
        self._add({"step": self.steps, "steps": 1, **entry})

    def _add(self, entry: dict[str, int]) -> None:
        last = self.entries[-1] if len(self.entries) > 1 else None
        if last is not None and last["steps"] < self._stride:
            self.entries[-1] = joined(last, entry)
            return
        self.entries.append(entry)
        if len(self.entries) > MOST_ENTRIES:
            first, rest = self.entries[0], self.entries[1:]
            pairs = [rest[at : at + 2] for at in range(0, len(rest), 2)]
            self.entries = [
                first,
                *(joined(*pair) if len(pair) == 2 else pair[0] for pair in pairs),
            ]
            self._stride *= 2

    def data(self) -> dict[str, Any]:
        """The timeline as plain data."""
        return {
            "count": self.steps,
            "optimizers": len(self._optimizers),
            "entries": [dict(entry) for entry in self.entries],
        }


def joined(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    """Two entries as one: counts added, the higher peak, memory in use as it was last."""
    out = {name: first[name] + second[name] for name in (*COUNTED, "steps")}
    out["step"] = first["step"]
    out["in_use_bytes"] = second["in_use_bytes"]
    out["peak_bytes"] = max(first["peak_bytes"], second["peak_bytes"])
    return out


_now = Timeline()
_watching = False
_doubling: list[Callable[[], None]] = []
_ended = [0]  # steps of optimizers in this process


def now() -> Timeline:
    """The timeline of this process."""
    return _now


def forget() -> None:
    """Start it anew."""
    global _now
    _now = Timeline()
    with contextlib.suppress(Exception):
        totals = device.load().totals()
        _now._before = {name: int(totals[name]) for name in COUNTED}


def each_doubling(call: Callable[[], None]) -> None:
    """Have something called behind the first step of an optimizer, the second, the fourth, the eighth …"""
    _doubling[:] = [call]


def watch() -> None:
    """Have torch call after each step of an optimizer. Idempotent; it stays for good, since torch goes through its hooks
    while one of them runs."""
    global _watching
    if _watching:
        return
    _watching = True
    import torch
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            with contextlib.suppress(Exception):
                _now.begin(optimizer)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            with contextlib.suppress(Exception):
                _now.end(optimizer)
            _ended[0] += 1
            if not _ended[0] & (_ended[0] - 1):
                for call in _doubling:
                    with contextlib.suppress(Exception):
                        call()

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
