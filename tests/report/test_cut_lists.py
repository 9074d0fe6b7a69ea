"""A list that is cut names its first members and counts the rest: no member is missing, and nothing is counted that is not there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from hpushim.ledgers import story
from hpushim.model import Dependency, Report, Target
from hpushim.portfolio import page
from hpushim.prove import text
from hpushim.prove.covered import Coverage, Place
from hpushim.report import verdict, words


def _dependencies(names: Sequence[str], **how: object) -> tuple[Dependency, ...]:
    return tuple(Dependency(name, 2, True, "none", **how) for name in names)  # type: ignore[arg-type]


def _not_assessed(names: Sequence[str]) -> str:
    report = Report("hpushim", Target(), (), dependencies=_dependencies(names))
    return "".join(said for _, said in words.dependencies(report))


def _need_cuda(names: Sequence[str]) -> str:
    report = Report("hpushim", Target(), (), dependencies=_dependencies(names, kind="compiled for CUDA"))  # fmt: skip
    return verdict._with_dependencies(report, "ready", "")[1]


def _did_not_run(names: Sequence[str]) -> str:
    return " ".join(text._named("a title", [Place(name, 1, "HPU101", "x", True) for name in names]))


def _never_loaded(names: Sequence[str]) -> str:
    return " ".join(
        text._coverage(SimpleNamespace(coverage=Coverage(files_not_loaded=list(names))))
    )


#: What names some of many, and how many at most.
LISTS: dict[str, tuple[Callable[[Sequence[str]], str], int]] = {
    "open packages": (lambda names: verdict._named(_dependencies(names)), 3),
    "packages that need CUDA": (_need_cuda, 3),
    "packages that were not assessed": (_not_assessed, 12),
    "of a ledger": (story._some, 2),
    "of a portfolio": (page._some, 3),
    "rewrites that did not run": (_did_not_run, 12),
    "files that were never loaded": (_never_loaded, 12),
}


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
@pytest.mark.parametrize("what", LISTS)
def test_what_is_named_and_what_is_counted_are_all(what: str, more: int) -> None:
    said, most = LISTS[what]
    names = [f"name{number:02}x" for number in range(most + more)]
    told = said(names)
    assert re.findall(r"name\d+x", told) == names[:most]
    counted = re.findall(r"([\d,]+) more", told)
    assert counted == ([str(more)] if more > 0 else [])


@pytest.mark.parametrize("length", [119, 120, 121, 500])
def test_a_long_text_is_clipped_to_its_width(length: int) -> None:
    told = story._clipped("x" * length)
    assert len(told) == min(length, 120)
    assert told.endswith("…") is (length > 120)
