"""Step marks: where lazy mode ends a graph. Emulated execution is immediate; the ledger counts the marks."""

from __future__ import annotations

from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId
from habana_frameworks.torch.utils.internal import is_lazy, lazy_only

from hpushim.emulator import ledger

_closures: list = []


@lazy_only
def add_step_closure(closure, args=()):
    """Call ``closure(*args)`` at the next step mark."""
    _closures.append((closure, args))


def _run_step_closures():
    waiting, _closures[:] = list(_closures), []
    for closure, args in waiting:
        closure(*args)


def _mark(sync):
    ledger.mark_step(sync)
    EventDispatcher.instance().publish(EventId.MARK_STEP, [])
    _run_step_closures()


def _mark_step_if_lazy(device_str=""):
    if is_lazy():
        mark_step(device_str)


@lazy_only
def mark_step(device_str="", sync=False):
    """End the pending graph (lazy mode; nothing otherwise), then run the waiting step closures."""
    _mark(sync)


@lazy_only
def iter_mark_step(device_str=""):
    """As :func:`mark_step`."""
    _mark(False)
