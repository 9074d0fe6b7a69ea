"""What ``make test`` leaves out of all combinations is covered by what it takes."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import crossed
import pytest

SHAPES = [(3, 3), (2, 3, 4), (14, 9, 2), (2, 2, 3, 4), (1, 5, 5), (6, 8, 4)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_member_meets_each_of_every_other_list(shape: tuple[int, ...]) -> None:
    every = list(itertools.product(*map(range, shape)))
    taken = [every[number] for number in crossed.pairwise(every)]
    for one, other in itertools.combinations(range(len(shape)), 2):
        met = {(combination[one], combination[other]) for combination in taken}
        assert met == set(itertools.product(range(shape[one]), range(shape[other])))
    first, second = sorted(shape)[-2:]
    assert len(taken) <= first * second * 1.5
    assert taken == [every[number] for number in crossed.pairwise(every)]


def test_combinations_that_nobody_wrote_are_not_missed() -> None:
    written = [(0, 0, 0), (0, 1, 0), (1, 1, 1)]
    assert crossed.pairwise(written) == [0, 1, 2]


@pytest.mark.parametrize("rounds", [1, 3])
def test_each_member_of_each_list_is_taken_as_often_as_asked(rounds: int) -> None:
    if crossed.EVERY:
        pytest.skip("every combination is taken")
    lists = [range(7), "abc", [None]]
    taken = crossed.crossed(*lists, rounds=rounds)
    assert len(taken) == len(set(taken))
    for place, members in enumerate(lists):
        counts = [sum(one[place] is member for one in taken) for member in members]
        assert min(counts) >= (rounds if place < 2 and rounds < 3 else 1), counts


TESTS = """
import pytest

@pytest.mark.parametrize("z", ["p", "q", "r"])
@pytest.mark.parametrize(("x", "y"), [(1, 2), (3, 4), (5, 6)])
@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
def test_three(x, y, z, style): pass

@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(4))
def test_two(a, b): pass
"""
HOOK = (
    "import crossed\ndef pytest_collection_modifyitems(items): items[:] = crossed.thinned(items)\n"
)


def test_three_lists_above_each_other_are_thinned_and_two_are_not(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\n{HOOK}")  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    assert sum("test_two" in line for line in lines) == 12, done.stdout
    three = [line for line in lines if "test_three" in line]
    assert 9 <= len(three) <= 12
