"""Forms with fillings: ``make test`` takes a part that covers them, ``make test-all`` every combination.

``crossed``: each member of each list several times, beside changing neighbours. ``thinned``, which ``conftest.py`` asks of all tests: where
three or more ``parametrize`` stand above each other, each member of one with each of every other.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

import pytest

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


def pairwise(combinations: Sequence[Sequence[Hashable]]) -> list[int]:
    """The numbers of some in which each member of one place meets each of every other place that it meets in all of them."""
    missing = {number: _pairs(one) for number, one in enumerate(combinations)}
    found: list[int] = []
    while missing:
        best = max(missing, key=lambda number: (len(missing[number]), -number))
        met = missing.pop(best)
        found.append(best)
        missing = {number: left for number, pairs in missing.items() if (left := pairs - met)}
    return sorted(found)


def _pairs(combination: Sequence[Hashable]) -> set[tuple[tuple[int, Hashable], ...]]:
    return set(itertools.combinations(enumerate(combination), 2))


def thinned(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Without what the others of the same test cover."""
    kept: list[pytest.Item] = []
    for _, group in itertools.groupby(items, key=lambda item: item.nodeid.partition("[")[0]):
        tests = list(group)
        axes = [_names(mark) for mark in tests[0].iter_markers("parametrize")]
        if len(axes) > 2 and len(tests) > 1:
            chosen = pairwise([list(_members(test, axes)) for test in tests])
            tests = [tests[number] for number in chosen]
        kept += tests
    return kept


def _names(mark: pytest.Mark) -> list[str]:
    given = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)


def _members(test: Any, axes: Iterable[list[str]]) -> Iterator[tuple[int, ...]]:
    """Which member of each list a test has: told apart as objects, for they need not be comparable."""
    for names in axes:
        yield tuple(id(test.callspec.params[name]) for name in names)
