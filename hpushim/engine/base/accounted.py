"""What becomes of the CUDA tokens of a file."""

from __future__ import annotations

from typing import Literal, NamedTuple

Outcome = Literal["rewritten", "found", "inert", "unknown"]


class Accounted(NamedTuple):
    """One token and what becomes of it; ``reason`` is why an inert one does nothing."""

    line: int
    column: int
    token: str
    outcome: Outcome
    reason: str = ""
