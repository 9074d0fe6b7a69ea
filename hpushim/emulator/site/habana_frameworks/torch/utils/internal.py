"""Execution mode and small helpers of the vendor's package."""

from __future__ import annotations

import functools
import logging
import os
from time import perf_counter

logger = logging.getLogger(__name__)


def is_lazy():
    """True in lazy mode: ``PT_HPU_LAZY_MODE`` as it was at the first call, else the default of the emulated release."""
    if is_lazy._is_lazy is None:
        from hpushim.emulator import profiles

        is_lazy._is_lazy = os.getenv("PT_HPU_LAZY_MODE", profiles.current().lazy_default) != "0"
    return is_lazy._is_lazy


is_lazy._is_lazy = None


def lazy_only(func):
    """``func`` in lazy mode; in eager mode a function that does nothing (logged once)."""

    @functools.wraps(func)
    def in_lazy(*args, **kwargs):
        func(*args, **kwargs)

    @functools.wraps(func)
    def in_eager(*args, **kwargs):
        pass

    if is_lazy():
        return in_lazy
    logger.debug("%s has no effect outside lazy mode (emulated HPU)", func.__name__)
    return in_eager


class Timer:
    """``with Timer() as t``: ``t.elapsed`` is the block's time in seconds."""

    def __init__(self):
        self.start_t = None
        self.end_t = None

    def __enter__(self):
        self.start_t = perf_counter()
        return self

    def __exit__(self, type, value, traceback):
        self.end_t = perf_counter()

    @property
    def elapsed(self):
        """Seconds between entry and exit."""
        return self.end_t - self.start_t
