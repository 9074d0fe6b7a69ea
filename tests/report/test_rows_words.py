"""Rows of the matrix as text, what is narrowed for every device, packages in a verdict, and lines and diffs at their borders."""

from __future__ import annotations

import datetime
import difflib
from typing import Any

import msgspec
import pytest

from hpushim.matrix import load
from hpushim.matrix.readings import Reading
from hpushim.matrix.schema import Search
from hpushim.matrix.sources import Found, Hit
from hpushim.matrix.summary import Change
from hpushim.model import (  # fmt: skip
    ABSENT,
    Dependency,
    Edit,
    FileResult,
    Finding,
    Fix,
    Program,
    Report,
    Span,
    Target,
)
from hpushim.report import assess, narrowing, render, rows, words
from hpushim.report import verdict as decided
from hpushim.report.diff import unified
from hpushim.report.lines import steps
from hpushim.report.source import Lines

M = load()


def _reading(at: str, seen: Any = "opened") -> Reading:
    return Reading(at=at, says="what it says", read=datetime.date(2026, 1, 2), seen=seen)


def test_cited_places_are_told_by_their_state() -> None:
    states = ["same", "same", "moved", "changed", "gone", "unprinted", "document", "absent", "absent", "absent"]  # fmt: skip
    where = ["a/a", "a/b", "a/a", "a/a", "a/a", "a/a", "", "x/y", "x/y", "a/b"]
    found = [Found(f"row{n}", _reading(f"key:f#L{n}"), state, place, "L7" if state == "moved" else "") for n, (state, place) in enumerate(zip(states, where, strict=True))]  # type: ignore[arg-type]  # fmt: skip
    assert rows.places_text(found).splitlines() == [
        "row2: key:f#L2: moved to L7", "row3: key:f#L3: changed", "row4: key:f#L4: gone", "row5: key:f#L5: no fingerprint",
        "6 places in 2 repositories: 2 as they were read, 1 moved, 1 changed, 1 gone, 1 without a fingerprint",
        "not compared: 1 places in documents or whole repositories, 3 in repositories that are not there (x/y)",
    ]  # fmt: skip
    assert rows.places_text([]).endswith("not compared: 0 places in documents or whole repositories, 0 in repositories that are not there\n")  # fmt: skip
    assert rows.searches_text([Hit("r", "w", "o/n", "f:3")], 1200).splitlines() == ["r: 'w' is found now in o/n: f:3", "1200 searches without a result done again: 1 find something now"]  # fmt: skip


@pytest.mark.parametrize("markdown", [True, False])
def test_changes_are_a_table(markdown: bool) -> None:
    found = [Change("a", "python", "native", "native", "same|word"), Change("b", "python", "native", "partial", "other")]  # fmt: skip
    said = rows.changes_text(found, markdown)
    assert (said.startswith("|"), "native → partial" in said, said.count("native")) == (markdown, True, 2)  # fmt: skip


@pytest.mark.parametrize("inherited", [True, False])
def test_all_about_one_name(inherited: bool) -> None:
    target = Target()
    unknown = M.verdict("nobody_zq.x", target)
    assert rows.one(M, unknown, target) == f"nobody_zq.x: unknown: {unknown.note}\n"
    verdict = M.verdict("torch.cuda.synchronize", target)
    assert verdict.row is not None
    row = msgspec.structs.replace(verdict.row, searched=(Search(words="w", places=("a", "b")),), also=("torch.other", "torch._own", "torch.x._y"), rule="HPU101", runtime="constant", value="3")  # fmt: skip
    verdict = msgspec.structs.replace(verdict, row=row, inherited=inherited)
    seen = [_reading(row.source[0], "collected"), _reading(row.source[0])]
    lines = rows.one(M, verdict, target, seen).splitlines()
    handling = ["  searched without a result: w in a, b", "  the shim answers 3", "  found in source by HPU101: see `hpushim explain HPU101`", "  also: torch.other"]  # fmt: skip
    assert [line in lines for line in handling] == [not inherited] * 4
    assert (f"  (of the whole {row.kind} {row.name})" in lines[0], "→" in lines[0]) == (inherited, not inherited)  # fmt: skip
    assert "    says: what it says (read 2026-01-02, not opened again since)" in lines
    assert "    says: what it says (read 2026-01-02)" in rows.one(M, verdict, target, seen[1:])
    assert "says:" not in rows.one(M, verdict, target, [_reading("other:place")])


def _finding(code: str, fix: bool = False, **how: Any) -> Finding:
    made = Fix("t", "safe", (Edit(Span(0, 1), "x", "y"),)) if fix else None
    return Finding(**{"code": code, "name": "n", "severity": "error", "safety": "manual", "message": "m", "span": Span(0, 1), "line": 1, "column": 1, "end_line": 1, "end_column": 2, "fix": made, **how})  # fmt: skip


def test_for_every_device_gaudis_limits_are_left_out() -> None:
    codes = ["HPU101", "HPU118", "HPU209", "HPU210", "HPU214", "HPU409", "HPU501", "HPU599", "HPU901"]  # fmt: skip
    whole = Report("hpushim 1", Target(style="agnostic"), (FileResult("a.py", "unchanged", None, tuple(_finding(code, fix) for code in codes for fix in (True, False)), b"x\n"),))  # fmt: skip
    found = [(one.code, one.fix is not None) for one in narrowing.for_every_device(whole).files[0].findings]  # fmt: skip
    assert found == [(code, fix) for code in codes for fix in (True, False) if fix or code in ("HPU101", "HPU210")]  # fmt: skip


@pytest.mark.parametrize("number", [0, 1, 3, 4, 5])
@pytest.mark.parametrize("by", ["", "zq"])
def test_the_programs_that_train_are_named(number: int, by: str) -> None:
    programs = tuple(Program(f"p{n}.py", f"why {n}") for n in range(number))
    made = Report("hpushim 1", Target(), (FileResult("a.py", "unchanged", None, (), b"x\n"),), programs=programs, trained_by=by, program="go.sh" if by else "p0.py")  # fmt: skip
    more = {4: " and 1 more program", 5: " and 2 more programs"}.get(number, "")
    said = "go.sh, with a program of the package `zq`" if by else ", ".join(f"p{n}.py (why {n})" for n in range(min(number, 3))) + more  # fmt: skip
    assert words.trains(made) == said
    for form in ("text", "markdown"):
        assert ("Trains: " in render(made, form)) is bool(said), form  # type: ignore[arg-type]
    assert assess(made).summary.verdict == "nothing to do"
    with pytest.raises(ValueError, match=r"^unknown report format 'zq'; one of .*text"):
        render(made, "zq")  # type: ignore[arg-type]


def _numbered(*changed: int, length: int = 30, word: str = "new") -> list[str]:
    return [f"{word if n in changed else n}{n}\n" for n in range(length)]


@pytest.mark.parametrize("changed", [(0,), (29,), (15,), (10, 16), (10, 17), (10, 18), (3,), (26,), (2, 27), (0, 29), tuple(range(30))])  # fmt: skip
@pytest.mark.parametrize("how", ["other", "gone", "more", "last line without an end"])
def test_a_diff_has_three_lines_around_each_change(changed: tuple[int, ...], how: str) -> None:
    old, new = _numbered(), _numbered(*changed)
    if how == "gone":
        new = [line for n, line in enumerate(old) if n not in changed]
    elif how == "more":
        new = [part for n, line in enumerate(old) for part in ([f"more{n}\n"] * (n in changed) + [line])]  # fmt: skip
    elif how == "last line without an end":
        old, new = [*old, "end"], [*new, "end"]
    found = unified("a.py", "".join(old).encode(), "".join(new).encode())
    wanted = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in difflib.unified_diff(old, new, "a/a.py", "b/a.py"))  # fmt: skip
    assert found == wanted
    assert unified("a.py", b"x", b"x") == ""


@pytest.mark.parametrize("every", [2, 3, 7, 60])
@pytest.mark.parametrize("how", ["other", "more", "less", "all"])
def test_steps_lead_from_the_old_lines_to_the_new(every: int, how: str) -> None:
    old = [f"line {n % 50} {n}\n" for n in range(600)]
    new = {"other": [line if n % every else f"other {n}\n" for n, line in enumerate(old)], "more": [part for n, line in enumerate(old) for part in ([line] if n % every else [line, f"more {n}\n"])],
           "less": [line for n, line in enumerate(old) if n % every], "all": [f"all {n}\n" for n in range(every * 9)]}[how]  # fmt: skip
    i = j = 0
    for tag, a, b, c, d in steps(old, new):
        assert (a, c) == (i, j) and {"equal": a < b and c < d, "replace": a < b and c < d, "delete": a < b and c == d, "insert": a == b and c < d}[tag]  # fmt: skip
        assert (tag == "equal") <= (old[a:b] == new[c:d])
        i, j = b, d
    assert (i, j) == (600, len(new))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_of_a_file_and_the_part_around_a_finding(end: str) -> None:
    text = end.join(["\t x = 1", "", "long " + "y" * 300, "z"])
    lines = Lines(FileResult("a.py", "unchanged", None, (), b"\xef\xbb\xbf" + text.encode()))
    assert len(lines) == 4
    assert [lines.line(n) for n in range(6)] == ["", "\t x = 1", "", "long " + "y" * 300, "z", ""]

    def parts(line: int, column: int, end_line: int, end_column: int) -> tuple[str, str, str] | None:  # fmt: skip
        found = lines.excerpt(_finding("HPU101", line=line, column=column, end_line=end_line, end_column=end_column))  # fmt: skip
        assert found is None or found.text == found.before + found.marked + found.after
        return None if found is None else (found.before, found.marked, found.after)

    assert parts(1, 3, 1, 4) == ("", "x", " = 1") and parts(1, 7, 1, 8) == ("x = ", "1", "")
    assert parts(1, 3, 2, 1) == ("", "x = 1", "") and parts(1, 1, 1, 2) == ("", "    ", " x = 1")
    assert parts(4, 1, 4, 2) == ("", "z", "") and parts(5, 1, 5, 2) is None
    assert parts(3, 1, 3, 5) == ("", "long", " " + "y" * 155 + "…")
    assert parts(3, 201, 3, 203) == ("…" + "y" * 100, "yy", "y" * 58 + "…")
    assert parts(3, 304, 3, 306) == ("…" + "y" * 100, "yy", "")
    assert parts(3, 6, 3, 300) == ("long ", "y" * 155, "…")
    assert Lines(FileResult("a.py", "unchanged", None, (), None)).excerpt(_finding("HPU101")) is None  # fmt: skip


def _package(name: str, files: int = 1, **how: Any) -> Dependency:
    return Dependency(name, files, how.pop("required", True), "none", **how)


S = "s."
NAMED = "`a`, `b`, `c` and 2 more"


def _open(names: str, it: str = "it", package: str = "package") -> str:
    return f"Not counted: work for the {package} {names}; to assess {it}, add `--env PYTHON`, the path of a Python that has {it} installed."


@pytest.mark.parametrize("verdict", ["ready", "blocked", "needs work", "incomplete", "nothing to do"])  # fmt: skip
@pytest.mark.parametrize(
    ("packages", "trained_by", "becomes", "said"),
    [
        ((), "", {}, S), ((_package("a", kind="plain Python"),), "", {}, S), ((_package("a", kind="builds CUDA", required=False),), "", {}, S), ((_package("a", 0),), "", {}, S), ((_package("a", aside=True),), "", {}, S),
        ((_package("a", kind="builds CUDA"),), "", {"ready": "needs work", "nothing to do": "needs work"}, f"{S} a (1 file) needs CUDA."),
        (tuple(_package(name, 2, kind="Triton kernels") for name in "abcd"), "", {"ready": "needs work", "nothing to do": "needs work"}, f"{S} a (2 files), b (2 files), c (2 files) and 1 more need CUDA."),
        ((_package("a"),), "", {}, f"{S} {_open('`a`')}"), (tuple(_package(name) for name in "abcde"), "", {}, f"{S} {_open(NAMED, 'them', 'packages')}"),
        ((_package("a", kind="by row", status="unknown"),), "", {}, f"{S} No source shows whether `a` works on Gaudi."), ((_package("a", kind="by row", status="unknown"), _package("b", kind="by row", status="unknown")), "", {}, f"{S} No source shows whether `a`, `b` work on Gaudi."),
        ((_package("a", 3),), "", {}, f"{_open('`a`')} {S}"), ((_package("a", 2),), "", {}, f"{S} {_open('`a`')}"),
        ((_package("a", 3), _package("b", 4, kind="by row", status="unknown")), "", {}, f"{_open('`a`')} No source shows whether `b` works on Gaudi. {S}"),
        ((_package("a", 3), _package("b", 4)), "", {}, f"{_open('`a`, `b`', 'them', 'packages')} {S}"),
        ((_package("a", evidence=ABSENT),), "", {"ready": "incomplete"}, f"`a` is not in this checkout: fetch and assess it before you plan. {S}"), ((_package("a", evidence=ABSENT, required=False),), "", {}, f"{S} {_open('`a`')}"),
        ((_package("a"),), "a", {"ready": "needs work", "incomplete": "needs work"}, f"The training loop is in `a`: assess that package first. {S}"), ((_package("a", kind="plain Python"),), "a", {}, S),
    ],
)  # fmt: skip
def test_packages_that_nobody_assessed_are_told_by_what_they_decide(verdict: Any, packages: tuple[Dependency, ...], trained_by: str, becomes: dict[str, str], said: str) -> None:  # fmt: skip
    files = tuple(FileResult(f"{n}.{'py' if n < 21 else 'sh'}", "unchanged", None, (), b"") for n in range(30))  # fmt: skip
    made = Report("hpushim 1", Target(), files, dependencies=packages, trained_by=trained_by)
    found = decided._with_dependencies(made, verdict, S)
    if verdict == "nothing to do" and not said.startswith(S):
        assert found[0] == verdict and "assess that package first" not in found[1]
    else:
        assert found == (becomes.get(verdict, verdict), said)


@pytest.mark.parametrize(
    ("line", "start", "end", "expected"),
    [
        ("x" * 160, 1, 2, ("", "x", "x" * 159)), ("x" * 161, 1, 2, ("", "x", "x" * 159 + "…")), ("  " + "x" * 160, 3, 4, ("", "x", "x" * 159)), ("x" * 200, 101, 102, ("x" * 100, "x", "x" * 59 + "…")), ("x" * 200, 102, 103, ("…" + "x" * 100, "x", "x" * 59 + "…")),
        ("x" * 300, 150, 290, ("…" + "x" * 100, "x" * 60, "…")), ("    ab", 3, 4, ("", " ", " ab")), ("ab", 9, 9, ("ab", "", "")), ("a b  ", 1, 2, ("", "a", " b")), ("ab", 2, 2, ("a", "", "b")),
    ],
)  # fmt: skip
def test_of_a_long_line_the_part_around_a_finding_is_shown(line: str, start: int, end: int, expected: tuple[str, str, str]) -> None:  # fmt: skip
    one = _finding("HPU101", column=start, end_column=end)
    found = Lines(FileResult("a.py", "unchanged", None, (one,), line.encode())).excerpt(one)
    assert found is not None and (found.before, found.marked, found.after) == expected
    assert found.text == "".join(expected)
    below = Lines(FileResult("a.py", "unchanged", None, (one,), b"")).excerpt(one)
    assert below is None
