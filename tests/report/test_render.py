"""The renderers say what the report holds, in the promised form."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpushim.model import Edit, FileResult, Finding, Fix, Report, Span, Target
from hpushim.report import html, render, summarise
from hpushim.report.diff import unified
from hpushim.report.source import Lines


def finding(code: str = "HPU101", **changes: object) -> Finding:
    fields: dict[str, object] = {
        "code": code,
        "name": "device-literal",
        "severity": "warning",
        "safety": "safe",
        "message": '`"cuda"` is no device on Gaudi; write `"hpu"`',
        "span": Span(9, 15),
        "line": 1,
        "column": 10,
        "end_line": 1,
        "end_column": 16,
        "fix": Fix("write hpu", "safe", (Edit(Span(9, 15), '"cuda"', '"hpu"'),)),
    }
    return Finding(**{**fields, **changes})  # type: ignore[arg-type]


def report(*files: FileResult) -> Report:
    return Report(tool="hpushim 0.1.0", target=Target(), files=files)


BEFORE = b'device = "cuda"\n'
AFTER = b'device = "hpu"\n'


def test_json_keeps_the_contract() -> None:
    data = json.loads(
        render(report(FileResult("a.py", "unchanged", None, (finding(),), BEFORE)), "json")
    )
    assert data["files"][0]["findings"][0]["column"] == 10
    assert data["files"][0]["findings"][0]["handling"] == "safe"


def test_text_points_at_the_place() -> None:
    text = render(report(FileResult("a.py", "unchanged", None, (finding(),), BEFORE)))
    lines = text.splitlines()
    assert lines[0].startswith("Verdict: ready. ")
    place = lines.index('    a.py:1:10: device = "cuda"')
    assert lines[place - 1].startswith("  warning HPU101 ") and "[migrate]" in lines[place - 1]
    concise = render(report(FileResult("a.py", "unchanged", None, (finding(),), BEFORE)), "concise")
    assert concise.startswith("a.py:1:10: HPU101 warning: ")


@pytest.mark.parametrize(
    ("source", "column", "marked"),
    [
        (b'\tif x:\ty = "cuda"\n', 12, '"cuda"'),
        (b'\xef\xbb\xbfy = "cuda"\r\n', 5, '"cuda"'),
        (b"x = '" + b"a" * 900 + b'\'; y = "cuda"\n', 913, '"cuda"'),
    ],
)
def test_the_marked_part_is_what_the_finding_is_about(
    source: bytes, column: int, marked: str
) -> None:
    f = finding(column=column, end_column=column + 6)
    part = Lines(FileResult("a.py", "unchanged", None, (f,), source)).excerpt(f)
    assert part is not None and part.marked == marked and len(part.text) < 200


def test_messages_that_quote_other_code_are_told_once() -> None:
    said = "`%s` waits for the card"
    notes = [
        finding("HPU513", severity="note", safety="manual", fix=None, message=said % name)
        for name in ("loss.item()", "accuracy.item()", "loss.item()")
    ]
    loud = [finding("HPU514", message=said % name, fix=None, safety="manual") for name in "xyx"]
    text = render(report(FileResult("a.py", "unchanged", None, (*notes, *loud), BEFORE)))
    assert (
        text.count("HPU513 `loss.item()` waits for the card (the same for `accuracy.item()`)") == 1
    )
    assert text.count("HPU513") == 1
    assert text.count("warning HPU514 `x` waits for the card (the same for `y`) [by hand]") == 1
    assert "By hand: 1 piece of work, 5 to 20 minutes" in text


def test_markdown_says_what_to_do_where_there_is_something_to_do() -> None:
    clean = render(report(FileResult("a.py", "unchanged", None, (), BEFORE)), "markdown")
    assert "### Next steps" not in clean and "Findings:" not in clean
    found = render(report(FileResult("a.py", "unchanged", None, (finding(),), BEFORE)), "markdown")
    steps, _, codes = found.partition("### Next steps")[2].partition("Findings by code")
    assert (
        "| `hpushim migrate` |" in steps and "Findings: 1 " in steps and "| HPU101 | 1 |" in codes
    )


def test_a_failed_file_leaves_the_verdict_open() -> None:
    done = report(FileResult("bad.py", "failed", "does not parse: line 3"))
    assert summarise(done).verdict == "incomplete"
    assert "bad.py: failed: does not parse: line 3" in render(done)


def test_a_stopping_finding_needs_the_user() -> None:
    f = finding("HPU416", severity="error", safety="manual", fix=None)
    summary = summarise(report(FileResult("a.py", "unchanged", None, (f,), BEFORE)))
    assert summary.verdict == "needs work"
    assert summary.manual == 1
    assert summary.sentence.startswith(
        "1 piece of work by hand (1 place) is left before it trains on Gaudi: "
    )


def test_counts_add_up() -> None:
    done = report(
        FileResult("a.py", "changed", None, (finding(applied=True),), BEFORE, AFTER),
        FileResult("b.py", "unchanged", None, (finding(safety="unsafe"),), BEFORE),
        FileResult("c.bin", "skipped", "binary"),
    )
    summary = summarise(done)
    assert (summary.changed, summary.unchanged, summary.skipped, summary.failed) == (1, 1, 1, 0)
    assert (summary.applied, summary.pending_safe, summary.pending_unsafe) == (1, 0, 1)
    assert (summary.lines_added, summary.lines_removed) == (1, 1)
    assert summary.codes == {"HPU101": 2}


def test_markdown_cells_survive_pipes() -> None:
    f = finding(message="a | b", safety="manual", fix=None)
    text = render(report(FileResult("a.py", "unchanged", None, (f,), BEFORE)), "markdown")
    assert "a \\| b" in text


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown report format"):
        render(report(), "pdf")


@given(
    st.lists(st.sampled_from(["a", "b", "é", "", "x\r", "\f"]), max_size=8),
    st.lists(st.sampled_from(["a", "b", "é", "", "x\r", "\f"]), max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_patch_applies_the_diff(
    old: list[str], new: list[str], end_old: bool, end_new: bool
) -> None:
    before = ("\n".join(old) + ("\n" if end_old else "")).encode()
    after = ("\n".join(new) + ("\n" if end_new else "")).encode()
    diff = unified("f.txt", before, after)
    assert (diff == "") == (before == after)
    if not diff:
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "f.txt").write_bytes(before)
        (Path(folder) / "d").write_bytes(diff.encode())
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "--unsafe-paths", "-p1", "d"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={"GIT_CEILING_DIRECTORIES": folder, "PATH": "/usr/bin:/bin", "HOME": folder},
        )
        assert done.returncode == 0, done.stderr + diff
        applied = Path(folder) / "f.txt"
        assert (applied.read_bytes() if applied.exists() else b"") == after


@pytest.mark.parametrize(("numbers", "most"), [((1,), 0), ((1, 1), 0), ((1, 0, 3), 0), ((2, 2), 8), ((), 0)])  # fmt: skip
def test_a_bar_is_as_long_as_what_it_represents(numbers: tuple[int, ...], most: int) -> None:
    bar = html._bar([(f"kind{place}", number) for place, number in enumerate(numbers)], most)
    shown = {part.get("class"): float(re.findall(r"[\d.]+", part.get("style") or "")[0]) for part in bar}  # fmt: skip
    whole = most or sum(numbers)
    assert shown == {f"kind{place}": pytest.approx(100 * number / whole) for place, number in enumerate(numbers) if number}  # fmt: skip
