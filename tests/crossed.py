"""``crossed``: forms with fillings. ``make test`` takes each member of each list several times, ``make test-all`` every combination."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Collection
from typing import Any

EVERY = os.environ.get("HPUSHIM_TESTS") == "all"


def crossed(*lists: Collection[Any], rounds: int = 2) -> list[Any]:
    """Combinations of one member each: those of the longest list ``rounds`` times, the others at least as often, beside changing neighbours."""
    if EVERY:
        return list(itertools.product(*lists))
    shuffled = random.Random(len(lists))
    size = rounds * max(map(len, lists))
    columns = []
    for members in map(list, lists):
        turns = -(-size // len(members))
        columns.append([one for _ in range(turns) for one in shuffled.sample(members, len(members))][:size])  # fmt: skip
    found: list[Any] = []
    for combination in zip(*columns, strict=True):
        if combination not in found:
            found.append(combination)
    return found
