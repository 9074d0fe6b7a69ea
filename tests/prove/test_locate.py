"""Where two runs part is found and said: each line as the culprit, each kind of difference, with runs that are answered by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from test_sentences import BOUND, ERROR, apart, outcome, run, step

from hpushim.model import FileResult, Finding, Report, Severity, Span, Target
from hpushim.prove import hunks
from hpushim.prove.bounds import Bound
from hpushim.prove.compare import Comparison, Difference, compare
from hpushim.prove.covered import Coverage, Place
from hpushim.prove.locate import Cause, locate
from hpushim.prove.records import Process, Record
from hpushim.prove.runs import Run

LINES = ("import torch", 'w = made("cuda")', "plain(w)", 'x = first("cuda")', 'y = second("cuda")', 'z = third("cuda")', "plain(x, y, z)")  # fmt: skip
NAMED = [number for number, line in enumerate(LINES, 1) if "cuda" in line]
TEXT = "".join(f"{line}\n" for line in LINES)
SHIM = Run("shim", "run", ("python",), 0, 1.0, "", "", Record([Process(0, [step()])]))


def goes(kind: str) -> Run:
    """A run that does what the shim's does, but for one thing."""
    steps, errors, code = [step()], [], 0
    if kind == "loss":
        steps = [step(losses=[{**step()["losses"][0], "value": "1.5"}])]
    elif kind == "error":
        errors, code = [ERROR], 1
    elif kind == "exit":
        code = 3
    elif kind == "steps":
        steps = []
    return Run("native", "run", ("python",), code, 1.0, "", "", Record([Process(0, steps)], errors))


class Answered:
    """The trial of a project whose runs are answered from the text that they would run."""

    def __init__(self, at: Path, copy: str, wrong: Callable[[str, str], str]) -> None:
        self.root, self.at, self.wrong = at / "root", at, wrong
        self.plan = SimpleNamespace(steps=3)
        self.traced: dict[str, set[int]] = {}
        self.runs: list[tuple[str, str, dict[str, Any]]] = []
        self.said: list[str] = []
        self.root.mkdir()
        (self.root / "t.py").write_text(TEXT)
        (self.copy("copy") / "t.py").write_text(copy)

    def copy(self, name: str) -> Path:
        (self.at / name).mkdir()
        (self.at / name / "t.py").write_text(TEXT)
        return self.at / name

    def changes(self, report: Report, copy: Path) -> list[hunks.Hunk]:
        return hunks.between(self.root, copy, [file.path for file in report.files])

    def statement(self, file: str, line: int) -> frozenset[int]:
        return frozenset({line})

    def say(self, text: str) -> None:
        self.said.append(text)

    def run(self, way: str, title: str, folder: Path, **how: Any) -> Run:
        self.runs.append((way, title, how))
        return goes(self.wrong((folder / "t.py").read_text(), way))


def report(*lines: int) -> Report:
    found = tuple(
        Finding(f"HPU{100 + n}", f"rule-{n}", "warning", "safe", "a message", Span(0, 1), n, 1, n, 9, applied=True)
        for n in lines
    )  # fmt: skip
    return Report("hpushim", Target(), (FileResult("t.py", "changed", findings=found),))


def found(
    at: Path, copy: str, wrong: Callable[[str, str], str], coverage: Coverage | None = None
) -> tuple[Cause, Answered]:
    """The cause where the copy goes as ``wrong`` says, and what was run to find it."""
    trial = Answered(at, copy, wrong)
    native = goes(wrong(copy, "native"))
    pair = compare(SHIM, native, same_device=True)
    assert pair.difference is not None
    made = outcome(
        verdict="different", comparisons=[pair], runs=[run("cpu"), SHIM, native],
        migrated=at / "copy", report=report(*NAMED), coverage=coverage or Coverage(),
    )  # fmt: skip
    return locate(trial, made), trial  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["error", "exit", "loss"])
@pytest.mark.parametrize("culprit", NAMED)
def test_the_rewrite_that_alone_makes_the_difference_is_named(
    kind: str, culprit: int, tmp_path: Path
) -> None:
    copy = TEXT.replace("cuda", "hpu")
    bad = LINES[culprit - 1].replace("cuda", "hpu")
    cause, trial = found(tmp_path, copy, lambda text, _: kind if bad in text else "")
    assert (cause.file, cause.line, cause.code, cause.name) == ("t.py", culprit, f"HPU{100 + culprit}", f"rule-{culprit}")  # fmt: skip
    parts = [how for way, title, how in trial.runs if title == "part"]
    assert 1 + len(parts) <= 2 + len(NAMED).bit_length()
    assert cause.how == f"found by {len(trial.runs)} more runs with part of the rewrites"
    # How it ends is seen at the end; numbers, at the step where they part.
    assert {how["steps"] for how in parts} == ({1} if kind == "loss" else {3})
    assert cause.step == (1 if kind == "loss" else 2)


@pytest.mark.parametrize("kind", ["error", "exit", "loss"])
def test_no_rewrite_is_named_where_none_makes_the_difference_under_the_shim(
    kind: str, tmp_path: Path
) -> None:
    copy = TEXT.replace("cuda", "hpu")
    cause, _ = found(tmp_path, copy, lambda _, way: kind if way == "native" else "")
    assert (cause.file, cause.line, cause.code) == ("", 0, "")
    assert cause.how.startswith("no single rewrite explains it")


#: What the copy lacks, seen in a line of the original.
LACKS = {
    "steps": lambda at: ({"place": ["t.py", at]}, None),
    "backward": lambda at: ({"losses": [step()["losses"][0], {**step()["losses"][0], "place": ["t.py", at]}]}, step(losses=[{**step()["losses"][0], "place": ["t.py", 3]}])),
}  # fmt: skip


def lacking(kind: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, lesser = LACKS[kind](at)
    shim = msgspec.structs.replace(SHIM, record=Record([Process(0, [step(**changes)])]))
    less = msgspec.structs.replace(SHIM, record=Record([Process(0, [lesser] if lesser else [])]))
    monkeypatch.setitem(globals(), "SHIM", shim)
    monkeypatch.setitem(globals(), "goes", lambda kind: less if kind else shim)


@pytest.mark.parametrize("kind", LACKS)
@pytest.mark.parametrize("at", range(1, len(LINES) + 1))
@pytest.mark.parametrize("culprit", NAMED)
def test_what_the_copy_lacks_is_blamed_on_the_change_that_takes_it_away(
    kind: str, at: int, culprit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking(kind, at, monkeypatch)
    bad = LINES[culprit - 1].replace("cuda", "hpu")
    cause, _ = found(tmp_path, TEXT.replace("cuda", "hpu"), lambda text, _: kind if bad in text else "")  # fmt: skip
    assert (cause.file, cause.line) == ("t.py", culprit)


@pytest.mark.parametrize("told", [0, 3, 7])
@pytest.mark.parametrize("kind", LACKS)
@pytest.mark.parametrize("at", range(1, len(LINES) + 1))
def test_a_line_that_was_not_changed_and_has_no_finding_is_not_blamed_for_what_the_copy_lacks(
    kind: str, at: int, told: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking(kind, at, monkeypatch)
    coverage = Coverage(findings_run=[Place("t.py", told, "HPU120", "a-rule", False)])
    cause, _ = found(tmp_path, TEXT.replace("cuda", "hpu"), lambda _, way: kind if way == "native" else "", coverage)  # fmt: skip
    if at in (*NAMED, told):
        assert (cause.file, cause.line) == ("t.py", at)
    else:
        assert (cause.file, cause.line, cause.shows) == ("", 0, f"t.py:{at}")
        assert cause.how == "no single rewrite explains it; this is where it shows first"


@pytest.mark.parametrize("kind", ["error", "exit", "loss"])
@pytest.mark.parametrize("severity", ["error", "warning"])
@pytest.mark.parametrize("ran", [True, False])
def test_work_by_hand_that_ran_is_named_where_the_copy_fails(
    kind: str, severity: Severity, ran: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = Finding("HPU803", "a-setting", severity, "manual", "a message", Span(0, 1), 4, 1, 4, 9)  # fmt: skip
    told = report(*NAMED)
    told = msgspec.structs.replace(told, files=(*told.files, FileResult("a.yaml", "unchanged", findings=(by_hand,))))  # fmt: skip
    monkeypatch.setitem(globals(), "report", lambda *_: told)
    coverage = Coverage(findings_run=[Place("a.yaml", 4, "HPU803", "a-setting", False)] if ran else [])  # fmt: skip
    cause, _ = found(tmp_path, TEXT.replace("cuda", "hpu"), lambda _, way: kind if way == "native" else "", coverage)  # fmt: skip
    assert not cause.file
    named = cause.how.endswith("; of the work by hand ran a.yaml:4 HPU803 a-setting")
    assert named is (kind == "error" and severity == "error" and ran), cause.how


@pytest.mark.parametrize("kind", ["error", "exit", "loss"])
@pytest.mark.parametrize("left", NAMED)
def test_a_line_that_still_names_cuda_is_named_where_gaudis_word_repairs_it(
    kind: str, left: int, tmp_path: Path
) -> None:
    lines = [line if number == left else line.replace("cuda", "hpu") for number, line in enumerate(LINES, 1)]  # fmt: skip
    copy = "".join(f"{line}\n" for line in lines)
    cause, trial = found(tmp_path, copy, lambda text, way: kind if way == "native" and "cuda" in text else "")  # fmt: skip
    assert (cause.file, cause.line) == ("t.py", left)
    assert cause.how.startswith("the copy still names there what only CUDA has")
    assert f"trying hpu in t.py:{left} of the copy" in trial.said


SAME = Comparison("shim", "native", 2)
REFUSES = "RuntimeError: HPU104 complex64 is not supported"


def against_cpu(at: Path, difference: Difference, **changes: Any) -> tuple[Cause, Answered]:
    """The cause where both runs on hpu agree and the CPU's does not."""
    trial = Answered(at, TEXT, lambda *_: "")
    pair = msgspec.structs.replace(apart(), difference=difference, **changes.pop("pair", {}))
    made = outcome(verdict="different", comparisons=[SAME, pair], migrated=at / "copy", report=report(), **changes)  # fmt: skip
    return locate(trial, made), trial  # type: ignore[arg-type]


@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize(
    ("what", "told", "predicted"),
    [
        (REFUSES, "HPU104", True), (REFUSES, "HPU105", False), ("RuntimeError: no", "HPU104", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("at", [("t.py", 5), None])
def test_an_error_on_hpu_that_a_finding_predicted_is_said_to(
    ran: bool, what: str, told: str, predicted: bool, at: tuple[str, int] | None, tmp_path: Path
) -> None:
    findings = [Place("t.py", 3, "HPU900", "another", False), Place("t.py", 4, told, "a-rule", False)]  # fmt: skip
    coverage = Coverage(findings_run=findings) if ran else Coverage(findings_not_run=findings)
    cause, trial = against_cpu(tmp_path, Difference("error", what, 1, place=at), coverage=coverage)
    assert cause.shows == ("t.py:5" if at else "")
    assert not trial.runs, "the error says all that a run would"
    if predicted:
        assert cause.how == "a finding predicted it: HPU104 a-rule at t.py:4"
    else:
        assert cause.how.startswith("the original and its migrated copy both fail there on hpu")


@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize("line", [3, 4, 5])
def test_an_error_on_hpu_in_a_line_with_a_finding_that_it_does_not_name_is_said_to(
    ran: bool, line: int, tmp_path: Path
) -> None:
    findings = [Place("t.py", 4, "HPU120", "a-rule", False)]
    coverage = Coverage(findings_run=findings) if ran else Coverage(findings_not_run=findings)
    no = Difference("error", "TypeError: no", 1, place=("t.py", line))
    cause, _ = against_cpu(tmp_path, no, coverage=coverage)
    if ran and line == 4:
        assert cause.how == "both runs on hpu fail in a line that has a finding: HPU120 a-rule"
    else:
        assert cause.how.startswith("the original and its migrated copy both fail there on hpu")


@pytest.mark.parametrize("kind", ["loss", "parameters"])
@pytest.mark.parametrize(
    ("value", "bound", "shown"),
    [
        (1.0, None, False), (1.001, None, True), (1.001, BOUND, False), (9.0, BOUND, True),
    ],
)  # fmt: skip
def test_the_first_operator_further_from_the_cpu_than_its_dtype_explains_is_shown(
    kind: str, value: float, bound: Bound | None, shown: bool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def again(self: Answered, way: str, title: str, folder: Path, **how: Any) -> Run:
        self.runs.append((way, title, how))
        noted = {"operators": [["aten.mm.default", [["float32", way, [2]]], ["t.py", 6], 1, [way], [1.0 if way == "cpu" else value]]]}  # fmt: skip
        process = Process(0, [step()], operators={2: noted})
        return Run(way, way, ("python",), 0, 1.0, "", "", Record([process]))  # type: ignore[arg-type]

    monkeypatch.setattr(Answered, "run", again)
    cause, trial = against_cpu(tmp_path, Difference(kind, "x", 2), pair={"bound": bound, "float32": True})  # fmt: skip
    assert (cause.shows, cause.operator != "") == (("t.py:6", True) if shown else ("", False))
    assert cause.how.startswith("both runs on hpu agree")
    # Only the step in question is recorded, with its values, as precisely as the two runs that were compared.
    assert [way for way, _, _ in trial.runs] == ["cpu", "shim"]
    for _, _, how in trial.runs:
        assert how == {"window": (2, 2), "values": True, "steps": 2, "float32": True}


@pytest.mark.parametrize("loaded", [True, False])
def test_a_file_that_was_never_loaded_is_not_repaired(loaded: bool, tmp_path: Path) -> None:
    trial = Answered(tmp_path, TEXT.replace("cuda", "hpu"), lambda _, way: "loss" if way == "native" else "")  # fmt: skip
    for folder in ("root", "copy"):
        (tmp_path / folder / "aside.py").write_text('made("cuda")\n')
    shim = msgspec.structs.replace(SHIM, record=msgspec.structs.replace(SHIM.record, files={"t.py", *(("aside.py",) if loaded else ())}))  # fmt: skip
    native = goes("loss")
    told = report(*NAMED)
    told = msgspec.structs.replace(told, files=(*told.files, FileResult("aside.py", "unchanged")))
    made = outcome(
        verdict="different", comparisons=[compare(shim, native, same_device=True)], runs=[run("cpu"), shim, native],
        migrated=tmp_path / "copy", report=told, coverage=Coverage(),
    )  # fmt: skip
    locate(trial, made)  # type: ignore[arg-type]
    assert ("trying hpu in aside.py:1 of the copy" in trial.said) is loaded


@pytest.mark.parametrize("left", range(7))
def test_only_so_many_lines_that_name_cuda_are_tried(
    left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs a run: the first four, of however many there are."""
    lines = ["import torch", *(f'x{n} = made("cuda")' for n in range(7)), "plain()"]
    monkeypatch.setitem(globals(), "TEXT", "".join(f"{line}\n" for line in lines))
    copy = "".join(f"{line if n <= left else line.replace('cuda', 'hpu')}\n" for n, line in enumerate(lines))  # fmt: skip
    monkeypatch.setitem(globals(), "NAMED", range(2, 9))
    _, trial = found(tmp_path, copy, lambda text, way: "error" if way == "native" else "")
    tried = {line for line in trial.said if line.startswith("trying hpu in t.py:")}
    assert tried & {f"trying hpu in t.py:{n} of the copy" for n in range(2, 2 + left)} == {
        f"trying hpu in t.py:{n} of the copy" for n in range(2, 2 + min(left, 4))
    }
