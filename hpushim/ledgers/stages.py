"""The steps of a run as a few rows: neighbours added up until they fit a table or a chart."""

from __future__ import annotations

import msgspec

from hpushim.ledgers.model import Steps


class Stage(msgspec.Struct, frozen=True):
    """One or more steps after each other. Bytes in ``to_card``, ``to_host`` and ``peak``."""

    first: int
    steps: int
    operators: int
    recompilations: int
    host_syncs: int
    collectives: int
    to_device: int
    to_host: int
    in_use: int
    peak: int

    @property
    def label(self) -> str:
        """``7`` or ``7–12``."""
        return (
            str(self.first)
            if self.steps == 1
            else f"{self.first:,}–{self.first + self.steps - 1:,}"
        )

    def a_step(self, count: int) -> float:
        """Of the row's ``count`` the share of each step; 0 where a file names no steps."""
        return count / self.steps if self.steps else 0.0


def stages(steps: Steps, most: int) -> list[Stage]:
    """At most ``most`` rows; the first step, which holds the set-up, stays alone."""
    if not steps.entries:
        return []
    first, rest = steps.entries[0], steps.entries[1:]
    size = -(-len(rest) // max(1, most - 1)) or 1
    groups = [(first,), *(rest[at : at + size] for at in range(0, len(rest), size))]
    return [_joined(group) for group in groups]


def _joined(group: tuple[dict[str, int], ...]) -> Stage:
    def total(name: str) -> int:
        return sum(entry.get(name, 0) for entry in group)

    return Stage(
        first=group[0].get("step", 0),
        steps=total("steps"),
        operators=total("operators"),
        recompilations=total("recompilations"),
        host_syncs=total("host_syncs"),
        collectives=total("collectives"),
        to_device=total("host_to_device_bytes"),
        to_host=total("device_to_host_bytes"),
        in_use=group[-1].get("in_use_bytes", 0),
        peak=max(entry.get("peak_bytes", 0) for entry in group),
    )
