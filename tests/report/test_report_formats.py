"""Every format says the same: it is valid, holds each finding once, and its totals add up."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import READERS

import hpushim.report
from hpushim.engine.project import analyse
from hpushim.model import Basis, Edit, FileResult, Finding, Fix, Kernels, Report, Span, Target
from hpushim.report import FORMATS, assess, render
from hpushim.report.fingerprints import fingerprints
from hpushim.report.json import schema

FIX = Fix("write hpu", "safe", (Edit(Span(0, 1), "x", "y"),))
SOURCE = b'x = "cuda"\n' * 9
ODD = '\n, |<b>&"\x1b\u202e%::'


@st.composite
def finding(draw: st.DrawFn) -> Finding:
    """A finding of any kind that rules can give, and of some that they never do."""
    safety = draw(st.sampled_from(["safe", "unsafe", "manual"]))
    line = draw(st.integers(1, 9))
    return Finding(
        code=draw(st.sampled_from(["HPU001", "HPU003", "HPU101", "HPU204", "HPU503", "HPU711", "HPU818"])),
        name="some-name",
        severity=draw(st.sampled_from(["error", "warning", "note", "unknown"])),
        safety=safety,
        message=draw(st.sampled_from(["`\"cuda\"` is not there", "a | b", ODD, "=1+1"])),
        span=Span(0, 1),
        line=line,
        column=draw(st.integers(1, 11)),
        end_line=line,
        end_column=11,
        row=draw(st.sampled_from([None, "dark", "guessed", "hard"])),
        fix=FIX if safety != "manual" and draw(st.booleans()) else None,
        applied=draw(st.booleans()),
        effort=draw(st.sampled_from(["minutes", "hours", "none"])),
        effect=draw(st.sampled_from([None, "numbers", "speed", "cpu", "kernel"])),
    )  # fmt: skip


@st.composite
def report(draw: st.DrawFn) -> Report:
    """A report on some files."""
    files = []
    for name in draw(
        st.lists(st.sampled_from(["a.py", "b/c.yaml", f"o{ODD}.py", "=d.py"]), unique=True)
    ):
        status = draw(st.sampled_from(["changed", "unchanged", "skipped", "failed"]))
        found = tuple(draw(st.lists(finding(), max_size=5)))
        after = SOURCE.replace(b"cuda", b"hpu") if status == "changed" else None
        why = f"why {ODD}" if status in ("skipped", "failed") else None
        files.append(
            FileResult(name, status, why, found, SOURCE, after, SOURCE.replace(b"cuda", b"hpu"))
        )
    return Report(
        tool="hpushim 0.1.0",
        target=Target(),
        files=tuple(files),
        stage=draw(st.sampled_from(["before", "preview", "migrated"])),
        unknown=frozenset({"dark"}),
        rows={
            "dark": Basis("unknown", "documented"),
            "guessed": Basis("changed", "inferred"),
            "hard": Basis("unsupported", "source", effort="none", effect="numbers"),
        },
        kernels=draw(st.sampled_from([(), (Kernels("k.cu", 5000),)])),
        python_lines=len(files) * 9,
    )  # fmt: skip


@settings(max_examples=60)
@given(report())
def test_totals_add_up(given_report: Report) -> None:
    s = assess(given_report).summary
    assert s.findings == sum(len(file.findings) for file in given_report.files)
    assert s.findings == s.errors + s.warnings + s.notes + s.undetermined
    assert s.findings == s.applied + s.pending_safe + s.pending_unsafe + s.manual + s.no_action
    assert s.findings == sum(s.troubles.values()) == sum(s.codes.values())
    assert s.manual == s.effort.total
    by_hand = {f"{i.path}:{i.finding.line}" for i in assess(given_report).items if i.effort}
    assert {place for work in s.work for place in work.places} == by_hand
    assert s.least == sum(w.least for w in s.work) <= s.most == sum(w.most for w in s.work)
    assert s.lines.total == s.lines.free + s.lines.unsafe + s.lines.by_hand
    assert s.files == s.changed + s.unchanged + s.skipped + s.failed


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=25)
@given(report())
def test_a_format_tells_what_was_counted(form: str, given_report: Report) -> None:
    made = assess(given_report)
    text = render(given_report, form)
    assert text.endswith("\n") and not re.search("[\x00-\x09\x0b-\x1f\u202e]", text), form
    if form == "sarif":
        waiting = made.summary.pending_safe + made.summary.pending_unsafe
        assert text.count('"fixes":') == waiting
    for name, number in READERS[form](made, text).items():
        assert number == getattr(made.summary, name), (form, name)


def _resting_on(basis: Basis, form: str) -> str:
    """One finding that rests on a row of this kind, and else the same."""
    found = Finding("HPU101", "a-b", "warning", "manual", "m", Span(0, 1), 2, 1, 2, 3, row="row")
    file = FileResult("a.py", "unchanged", None, (found,), SOURCE, None, SOURCE)
    unknown = frozenset({"row"} if basis.status == "unknown" else ())
    return render(Report("hpushim", Target(), (file,), rows={"row": basis}, unknown=unknown), form)


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_marks_what_is_inferred_or_unknown_and_nothing_else(form: str) -> None:
    plain, guessed, dark = (_resting_on(basis, form) for basis in (Basis("changed", "source"), Basis("changed", "inferred"), Basis("unknown", "documented")))  # fmt: skip
    assert guessed.count("inferred") > max(plain.count("inferred"), dark.count("inferred"))
    assert dark.count("unknown") > max(plain.count("unknown"), guessed.count("unknown"))
    assert form in ("text", "html", "markdown", "json") or "inferred" not in plain


@pytest.mark.parametrize(("status", "confidence", "mark"), [("changed", "source", ""), ("changed", "inferred", "(inferred)"), ("unknown", "source", "(unknown)"), ("unknown", "inferred", "(unknown)")])  # fmt: skip
def test_a_finding_shows_one_mark(status: str, confidence: str, mark: str) -> None:
    body = _resting_on(Basis(status, confidence), "text").partition("explains a code")[2]  # type: ignore[arg-type]
    assert [each for each in ("(unknown)", "(inferred)") for _ in range(body.count(each))] == [mark] * bool(mark)  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_takes_an_empty_report(form: str) -> None:
    empty = Report(tool="hpushim 0.1.0", target=Target(), files=())
    text = render(empty, form)
    for name, number in READERS[form](assess(empty), text).items():
        assert number == getattr(assess(empty).summary, name)
    assert form in ("csv", "gitlab", "junit") or "nothing looked at" in text


def test_the_schema_that_ships_is_that_of_the_report() -> None:
    file = Path(hpushim.report.__file__).parent / "report.schema.json"
    assert json.loads(file.read_text(encoding="utf-8")) == schema(), (
        "write it anew: python -c 'from hpushim.report.json import *; print(dumps(schema()), end=\"\")'"
    )


def test_sarif_by_its_own_schema() -> None:
    """``HPUSHIM_SARIF_SCHEMA`` is a copy of the schema of OASIS, which is not part of this repository."""
    at = os.environ.get("HPUSHIM_SARIF_SCHEMA", "")
    if not at:
        pytest.skip("HPUSHIM_SARIF_SCHEMA does not name the schema of OASIS")
    wanted: Any = json.loads(Path(at).read_text(encoding="utf-8"))
    for name in ("unchanged", "failed"):
        found = (Finding("HPU101", "a-b", "error", "safe", "m", Span(0, 1), 2, 1, 2, 3, None, FIX),)
        file = FileResult(
            f"o{ODD}.py",
            name,
            "why" if name == "failed" else None,
            found,
            SOURCE,
            None,
            SOURCE.replace(b"cuda", b"hpu"),
        )  # type: ignore[arg-type]
        data = json.loads(render(Report("hpushim 0.1.0", Target(), (file,)), "sarif"))
        jsonschema.Draft7Validator(wanted).validate(data)


def test_a_fingerprint_survives_moved_lines_and_tells_twins_apart() -> None:
    def found(line: int) -> Finding:
        return Finding("HPU101", "a", "error", "safe", "m", Span(0, 1), line, 1, line, 3)

    old = FileResult("a.py", "unchanged", None, (found(1), found(2)), b"x = 1\nx = 1\n")
    moved = FileResult(
        "a.py", "unchanged", None, (found(4), found(6)), b"\n\n\n  x  = 1\n\nx = 1\n"
    )
    other = FileResult("a.py", "unchanged", None, (found(1),), b"y = 1\n")
    assert fingerprints(old) == fingerprints(moved)
    assert len({*fingerprints(old), *fingerprints(other)}) == 3


def test_the_core_of_a_project_can_be_kernels() -> None:
    build = Finding("HPU711", "cuda-extension", "error", "manual", "m", Span(0, 1), 1, 1, 1, 3, effort="none", effect="kernel")  # fmt: skip
    file = FileResult("setup.py", "unchanged", None, (build,), b"x\n" * 20)
    few = Report("t", Target(), (file,), kernels=(Kernels("k.cu", 10),), python_lines=9000)
    many = Report("t", Target(), (file,), kernels=(Kernels("k.cu", 4000),), python_lines=9000)
    inline = Report("t", Target(), (file,), python_lines=60)
    assert assess(few).summary.verdict == "needs work"
    assert assess(many).summary.verdict == assess(inline).summary.verdict == "blocked"
    assert "1 CUDA source file of 4,000 lines" in assess(many).summary.sentence


def test_what_a_row_does_to_a_run_decides_before_its_rule() -> None:
    """A code may stand for rows that cost speed and rows that change numbers."""
    found = Finding("HPU521", "a-b", "warning", "manual", "m", Span(0, 1), 1, 1, 1, 2, "hard", effect="speed")  # fmt: skip
    file = FileResult("a.py", "unchanged", None, (found,), SOURCE, None, None)
    for effect, trouble in ((None, "speed"), ("numbers", "numbers"), ("cpu", "cpu")):
        rows = {"hard": Basis("changed", "source", effect=effect)}  # type: ignore[arg-type]
        made = assess(Report("hpushim 0.1.0", Target(), (file,), rows=rows))
        assert [item.trouble for item in made.items] == [trouble]
        assert json.loads(render(made.report, "json"))["files"][0]["findings"][0]["effect"] == (
            effect or "speed"
        )
    assert made.summary.sentence.startswith(
        "Training stays on the CPU: a library puts the model there."
    )


def test_a_fix_of_sarif_is_that_of_the_finding_wherever_its_lines_are(tmp_path: Path) -> None:
    """Not that of another finding on the same line: the variable is set before the loop, the word is in it."""
    script = "#!/bin/bash\nset -e\nfor i in 1 2; do\n  python train.py --device cuda\ndone\n"
    (tmp_path / "run.sh").write_text(script)
    (tmp_path / "train.py").write_text(
        "import torch\nimport os\nimport sys\n\nif __name__ == '__main__':\n    torch.zeros(1).cuda()\n"
    )
    found = json.loads(render(analyse([tmp_path], Target(), propose=True), "sarif"))
    fixes = {}
    for result in found["runs"][0]["results"]:
        for fix in result.get("fixes", ()):
            for one in fix["artifactChanges"][0]["replacements"]:
                place = (one["deletedRegion"]["startLine"], one["deletedRegion"]["endLine"])
                fixes[result["ruleId"]] = (*place, one["insertedContent"]["text"])
    assert fixes["HPU809"] == (3, 3, "export PT_HPU_LAZY_MODE=0\n")
    assert fixes["HPU806"] == (4, 5, "  python train.py --device hpu\n")
    assert fixes["HPU520"][2] == "import habana_frameworks.torch.core as htcore\n"


def test_sarif_has_the_severity_of_the_code_and_that_of_each_finding(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n\n\ndef train(x):\n    torch.cuda.empty_cache()\n    return x.cuda()\n"
    )
    (run,) = json.loads(render(analyse([tmp_path], Target(), propose=True), "sarif"))["runs"]
    levels = {
        rule["id"]: rule["defaultConfiguration"]["level"] for rule in run["tool"]["driver"]["rules"]
    }
    assert levels["HPU402"] == "error"
    assert {one["level"] for one in run["results"] if one["ruleId"] == "HPU402"} == {"note"}


@pytest.mark.parametrize("kernels", [(), (Kernels("k.cu", 10),)])
@pytest.mark.parametrize("status", ["unchanged", "failed"])
def test_a_page_lists_what_was_not_checked_where_there_is_some(
    status: Any, kernels: tuple[Kernels, ...]
) -> None:
    file = FileResult("a.py", status, "why" if status == "failed" else None, (), SOURCE)
    page = render(Report("t", Target(), (file,), kernels=kernels), "html")
    listed = re.search(r"Files that were not checked: (\d+)", page)
    assert int(listed[1] if listed else 0) == len(kernels) + (status == "failed")
    assert ("k.cu" in page) is bool(kernels)


@pytest.mark.parametrize(
    ("severity", "safety", "gitlab", "sarif", "github"),
    [
        ("error", "manual", "blocker", "error", "error"),
        ("error", "unsafe", "critical", "error", "error"),
        ("error", "safe", "critical", "error", "error"),
        ("warning", "manual", "major", "warning", "warning"),
        ("warning", "safe", "major", "warning", "warning"),
        ("note", "safe", "minor", "note", "notice"),
        ("note", "manual", "info", "note", "notice"),
    ],
)
def test_what_each_host_of_code_calls_a_severity(
    severity: Any, safety: Any, gitlab: str, sarif: str, github: str
) -> None:
    fix = None if safety == "manual" else Fix("write hpu", safety, FIX.edits)
    found = Finding("HPU101", "a-b", severity, safety, "m", Span(0, 1), 2, 1, 2, 3, None, fix)
    file = FileResult("a.py", "unchanged", None, (found,), SOURCE, None, None)
    report = Report("hpushim 0.1.0", Target(), (file,))
    (issue,) = json.loads(render(report, "gitlab"))
    (result,) = json.loads(render(report, "sarif"))["runs"][0]["results"]
    assert (issue["severity"], result["level"]) == (gitlab, sarif)
    assert f"::{github} " in render(report, "github")


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("lines", [12, 13])
def test_a_page_says_that_there_is_more_of_a_change_where_there_is(lines: int, grows: bool) -> None:
    one, many = b"y = 'hpu'\n", b"".join(b"x_%d = 'cuda'\n" % n for n in range(lines))
    before, after = (one, many) if grows else (many, one)
    edit = Edit(Span(0, len(before)), before.decode(), after.decode())
    fix = Fix("write hpu", "safe", (edit,))
    found = Finding("HPU101", "a-b", "error", "safe", "m", Span(0, 1), 1, 1, 1, 2, None, fix)
    file = FileResult("a.py", "unchanged", None, (found,), before, None, after)
    page = render(Report("t", Target(), (file,)), "html")
    assert "x_11 = " in page and "x_12" not in page
    assert ("shows the rest" in page) is (lines > 12)
