"""Where two runs part: the step, the operator, the line, the rewrite."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpushim.prove.trial import Outcome, Trial


def locate(trial: Trial, outcome: Outcome) -> None:
    """Fills in ``where`` and ``code`` of an outcome whose runs differ."""
    difference = outcome.difference
    assert difference is not None
    if difference.step:
        outcome.where.append(f"from step {difference.step}")
    if difference.place:
        outcome.where.append(f"at {difference.place[0]}:{difference.place[1]}")
