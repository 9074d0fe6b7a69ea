"""The vendor's profiler calls, accepted and without effect."""

from __future__ import annotations


def setup_profiler() -> None:
    """Accepted, no effect on the emulated HPU."""


def start_profiler() -> None:
    """Accepted, no effect on the emulated HPU."""


def stop_profiler() -> None:
    """Accepted, no effect on the emulated HPU."""
