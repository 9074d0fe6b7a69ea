"""Names of the activities; none is recorded on the emulated HPU."""

from __future__ import annotations

from enum import Enum


class DebugActivity(Enum):
    """Activities that the vendor's profiler can add to a trace."""

    SYNAPSE_FUNCTION_CALLS = 1
    BRIDGE_FUNCTION_CALLS = 2


def register_habana_activity_profiler():
    """Accepted, no effect on the emulated HPU."""
