"""State of 8-bit training: off."""

from __future__ import annotations


def is_fp8_available():
    """(False, reason): 8-bit matrix products are not emulated."""
    return False, "the emulated HPU does not model 8-bit training"


def is_fp8_enabled():
    """False."""
    return False
