"""Findings become pieces of work, and the pieces a verdict that a person can plan by."""

from __future__ import annotations

import pytest

from hpushim.model import Basis, FileResult, Finding, Kernels, Report, Span, Target
from hpushim.report import assess
from hpushim.report.narrowing import Baseline, without
from hpushim.report.verdict import Verdict
from hpushim.report.work import in_words

CODE = b"""\
import torch

class Loss:
    def forward(self, x):
        x[m] = 0
        x[n] = 1
        return x

    def other(self, x):
        x[k] = 1
"""


def at(line: int, message: str, code: str = "HPU515", **more: object) -> Finding:
    fields = {
        "severity": "warning",
        "safety": "manual",
        "effort": "hours",
        "effect": "speed",
    } | more
    return Finding(code, "a-b", message=message, span=Span(0, 1), line=line, column=1, end_line=line, end_column=2, **fields)  # type: ignore[arg-type]  # fmt: skip


def report(*files: FileResult, **more: object) -> Report:
    return Report("hpushim", Target(), files, **more)  # type: ignore[arg-type]


def python(*findings: Finding, path: str = "loss.py") -> FileResult:
    return FileResult(path, "unchanged", None, findings, CODE)


def test_one_function_is_one_piece_and_each_further_place_adds_little() -> None:
    made = assess(report(python(at(5, "`x[m]` …"), at(6, "`x[n]` …"), at(10, "`x[k]` …"))))
    first, second = made.summary.work
    assert (first.function, len(first.places)) == ("Loss.forward", 2)
    assert (second.function, second.places) == ("Loss.other", ("loss.py:10",))
    assert second.least < first.least < 2 * second.least
    assert made.summary.most == first.most + second.most


def test_the_same_words_are_one_cause_in_the_whole_project() -> None:
    image = [
        FileResult(f"{n}/Dockerfile", "unchanged", None, (at(1, f"`cuda:{n}` has no torch", "HPU801"),), b"x")
        for n in range(21)
    ]  # fmt: skip
    package = [python(at(1, "`mmcv`: no hpu", "HPU710"), path=f"{n}.py") for n in range(3)]
    made = assess(report(*image, *package))
    assert sorted(len(work.places) for work in made.summary.work) == [3, 21]
    assert [work.aside for work in made.summary.work] == [False, True]


@pytest.mark.parametrize(
    ("found", "path", "verdict"),
    [
        ((), "a.py", "nothing to do"),
        ((at(1, "slow"),), "a.py", "ready"),
        ((at(1, "stops", severity="error", effect=None),), "a.py", "needs work"),
        ((at(1, "stops", severity="error", effect=None),), "tests/test_a.py", "ready"),
        ((at(1, "nobody knows", severity="unknown", effect=None),), "a.py", "needs work"),
        ((at(1, "stays", effect="cpu"),), "a.py", "needs work"),
        ((at(1, "`k2`", severity="error", effect=None, effort="none"),), "a.py", "blocked"),
        ((at(1, "`load`", severity="error", effect="kernel", effort="none"),), "a.py", "needs work"),
    ],
)  # fmt: skip
def test_the_verdict_is_about_what_a_training_run_needs(
    found: tuple[Finding, ...], path: str, verdict: Verdict
) -> None:
    summary = assess(report(python(*found, path=path), python_lines=9000)).summary
    assert summary.verdict == verdict, summary.sentence


def test_a_file_of_a_test_that_cannot_be_read_leaves_the_verdict() -> None:
    broken = FileResult("tests/data/bad.py", "failed", "does not parse")
    summary = assess(report(python(), broken)).summary
    assert summary.verdict == "nothing to do"
    assert summary.sentence.startswith("1 file could not be read")
    broken = FileResult("data/bad.py", "failed", "does not parse")
    assert assess(report(python(), broken)).summary.verdict == "incomplete"


def test_what_a_baseline_hides_is_in_the_headline() -> None:
    from hpushim.report.fingerprints import fingerprints
    from hpushim.report.narrowing import Known

    file = python(at(5, "`x[m]` …"))
    known = tuple(Known(mark, "", "", "") for mark in fingerprints(file))
    narrowed, _, _ = without(report(file), Baseline(1, "hpushim", known))
    summary = assess(narrowed).summary
    assert (summary.verdict, summary.sentence) == ("nothing new", "No new finding. 1 known finding is not shown.")  # fmt: skip


def test_nothing_was_looked_at() -> None:
    assert assess(report()).summary.verdict == "nothing looked at"
    skipped = FileResult("a.bin", "skipped", "binary")
    assert assess(report(skipped)).summary.verdict == "nothing looked at"
    kernels = assess(report(kernels=(Kernels("k.cu", 9),))).summary
    assert kernels.verdict == "blocked"


def test_a_row_that_says_more_effort_counts() -> None:
    found = at(1, "`x`", row="hard", effort="minutes")
    rows = {"hard": Basis("unsupported", "source", effort="none")}
    (work,) = assess(report(python(found), rows=rows)).summary.work
    assert (work.effort, work.most) == ("none", 0)


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        ((5, 20), "5 to 20 minutes"),
        ((60, 240), "1 to 4 hours"),
        ((10, 100), "up to 2 hours"),
        ((960, 4800), "2 to 10 days"),
        ((100, 1000), "up to 2 days"),
    ],
)
def test_ranges_in_words(minutes: tuple[int, int], words: str) -> None:
    assert in_words(*minutes) == words
