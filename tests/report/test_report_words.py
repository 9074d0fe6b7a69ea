"""Lines of a report at their borders: what is cut, counted, marked and narrowed, in each format."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hpushim.errors import HpushimError
from hpushim.model import Dependency, Edit, FileResult, Finding, Fix, Kernels, Report, Span, Target
from hpushim.report import (
    assess,
    fingerprints,
    html,
    junit,
    narrowing,
    render,
    text,
    verdict,
    words,
)
from hpushim.report import json as as_json
from hpushim.report.diff import _header
from hpushim.report.elements import el, sentence
from hpushim.report.github import _command
from hpushim.report.hunks import Hunk, Hunks
from hpushim.report.lines import _meeting, _near, split, steps


def finding(line: int = 1, **how: Any) -> Finding:
    fields = {"code": "HPU515", "name": "a-b", "severity": "warning", "safety": "manual", "message": "m", "span": Span(0, 1), "line": line, "column": 2, "end_line": line, "end_column": 3, "effort": "hours", "effect": "speed"}  # fmt: skip
    return Finding(**{**fields, **how})


def file(*findings: Finding, path: str = "a.py", before: bytes = b"x = 1\n", **how: Any) -> FileResult:  # fmt: skip
    return FileResult(path, how.pop("status", "unchanged"), how.pop("reason", None), findings, before, **how)  # fmt: skip


def report(*files: FileResult, **how: Any) -> Report:
    return Report("hpushim 1", how.pop("target", Target()), files, **how)


@pytest.mark.parametrize(
    ("path", "shown"), [("a.py", "a/a.py"), ("a b.py", "a/a b.py\t"), ('a"b.py', '"a/a\\"b.py"'), ("a\tb.py", '"a/a\\tb.py"'), ('"a b"', '"a/a b"')]
)  # fmt: skip
def test_the_name_of_a_file_in_a_diff(path: str, shown: str) -> None:
    assert _header("a", path) == shown


@pytest.mark.parametrize(("message", "code"), [("a", []), ("`a` b", ["a"]), ("a `b", []), ("`a` b `c", ["a"]), ("`a` `b`", ["a", "b"]), ("`", [])])  # fmt: skip
def test_what_is_between_backticks_is_code(message: str, code: list[str]) -> None:
    made = el("p", sentence(message))
    assert [one.text for one in made.iter("code")] == code
    assert "".join(made.itertext()) == (message if message.count("`") % 2 and not code else message.replace("`", "", 2 * len(code)))  # fmt: skip


@pytest.mark.parametrize(("end_line", "end_column", "places"), [(3, 5, "col=2,endColumn=5"), (3, 1, "col=2,endColumn=2"), (4, 1, "endLine=4"), (2, 9, "col=2,endColumn=9")])  # fmt: skip
@pytest.mark.parametrize(("severity", "level"), [("error", "error"), ("warning", "warning"), ("unknown", "warning"), ("note", "notice")])  # fmt: skip
def test_a_command_for_github(end_line: int, end_column: int, places: str, severity: str, level: str) -> None:  # fmt: skip
    one = finding(3, severity=severity, end_line=end_line, end_column=end_column, message="50%,\nb")
    (item,) = assess(report(file(one, path="a,b:c%.py", before=b"\n\nx\n\n"))).items
    said = _command(item)
    assert said.startswith(f"::{level} file=a%2Cb%3Ac%25.py,line=3,{places},title=hpushim HPU515::50%25,\\nb")  # fmt: skip
    assert said == said.rstrip()


HUNK = Hunk(3, ("a\n", "b\n"), ("import x\n", "b\n"))


@pytest.mark.parametrize(
    ("old", "region"),
    [(("a\n", "b\n"), (5, 1)), (("a\n", "bcd"), (4, 4)), ((), (3, 1)), (("\n",), (4, 1))],
)
def test_a_hunk_as_a_region(old: tuple[str, ...], region: tuple[int, int]) -> None:
    assert Hunk(3, old, ()).region == {"startLine": 3, "startColumn": 1, "endLine": region[0], "endColumn": region[1]}  # fmt: skip
    assert (HUNK.imports, Hunk(1, ("import x\n",), ("import x\n",)).imports, Hunk(1, (), ("  from a import b\n",)).imports, Hunk(1, (), ("x\n",)).imports) == (True, False, True, False)  # fmt: skip


@pytest.mark.parametrize(("line", "end", "part"), [(3, 3, (3, 1)), (4, 4, (4, 1)), (3, 4, (3, 2)), (2, 3, (3, 1)), (4, 9, (4, 1)), (5, 5, (5, 0)), (1, 1, (3, 2)), (1, 2, (3, 2))])  # fmt: skip
def test_the_part_of_a_hunk_for_a_finding(line: int, end: int, part: tuple[int, int]) -> None:
    found = HUNK.at(finding(line, end_line=end))
    assert (found.first, len(found.old), len(found.new)) == (*part, part[1])
    uneven = Hunk(3, ("a\n", "b\n"), ("c\n",))
    assert uneven.at(finding(line, end_line=end)) is uneven


TEXT = b"import os\na = 1\nb = 2\nc = 3\nd = 4\n"
AFTER = b"import os\nimport hpu\na = 1\nB = 2\nc = 3\nd = 4\ne = 5\n"


@pytest.mark.parametrize(
    ("line", "edits", "hunks"),
    [
        (3, (), ["B"]), (2, (), []), (4, (), []), (5, (), ["e"]), (1, (), ["import hpu"]),
        (4, ((16, "b"),), ["B"]), (5, ((16, "b"), (28, "d")), ["B", "e"]), (3, ((16, "x"),), ["B"]), (4, ((22, "c"),), []), (3, ((16, "b"), (17, "zz")), ["B"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["after", "proposed"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_the_hunks_that_a_finding_is_in(line: int, edits: tuple[tuple[int, str], ...], hunks: list[str], how: str, mark: bytes) -> None:  # fmt: skip
    made = Hunks(file(before=mark + TEXT, **{how: mark + AFTER}))
    fix = Fix("f", "safe", tuple(Edit(Span(at, at + len(old)), old, "y") for at, old in edits))
    found = made.of_fix(finding(line, fix=fix if edits else None))
    assert ["".join(hunk.new).split(" =")[0].strip() for hunk in found] == hunks
    assert Hunks(file(before=TEXT)).of_fix(finding(line)) == ()
    assert Hunks(file(before=TEXT, after=TEXT, proposed=AFTER)).of(finding(3)) is None


@pytest.mark.parametrize("line", [1, 2])
def test_what_is_found_at_an_import_is_shown_where_one_is_added(line: int) -> None:
    made = Hunks(file(before=b"import a\nx = 1\ny = 2\nz = 3\n", after=b"import a\nx = 1\ny = 2\nimport b\nz = 3\n"))  # fmt: skip
    found = made.of_fix(finding(line))
    assert len(found) == (line == 1)


@pytest.mark.parametrize(("before", "parts"), [("", []), ("a", ["a"]), ("a\n", ["a\n"]), ("a\n\nb", ["a\n", "\n", "b"]), ("a\r\nb\x0bc\n", ["a\r\n", "b\x0bc\n"])])  # fmt: skip
def test_line_feeds_alone_end_lines(before: str, parts: list[str]) -> None:
    assert split(before) == parts


@pytest.mark.parametrize(
    ("old", "new", "passed"),
    [
        (["a", "long line"], ["long line"], (1, 0)), (["long line"], ["a", "long line"], (0, 1)), (["a", "long line"], ["b", "long line"], (1, 1)), (["a", "x"], ["x"], None),
        (["a", "short"], ["short"], None), (["a", "shorts"], ["shorts"], (1, 0)), (["a", "x", "y", "z"], ["x", "y", "z"], (1, 0)), (["a", "x", "y", "z"], ["x", "y", "w"], None),
        (["a", "b", "c", "d", "long line"], ["long line"], (4, 0)), (["a", "b", "c", "d", "e", "long line"], ["long line"], None), (["a"], ["b"], None),
    ],
)  # fmt: skip
def test_where_two_texts_are_near_each_other_again(old: list[str], new: list[str], passed: tuple[int, int] | None) -> None:  # fmt: skip
    assert _near(old, new, 0, 0) == passed
    assert _near(["0", *old], ["0", "0", *new], 1, 2) == passed


def test_three_lines_in_a_row_are_a_meeting() -> None:
    assert _meeting(["x", "a", "b", "c"], ["a", "q", "a", "b", "c"]) == (2, 3)
    assert _meeting(["a", "x", "b", "c", "d"], ["a2", "b", "c", "d", "a"]) == (2, 1)
    assert _meeting(["q"], ["r", "s"]) == (1, 2)
    old, new = [f"{n}\n" for n in range(300)], [f"{n}\n" for n in range(300)]
    new[50:60] = ["other\n"] * 200
    assert ("equal", 0, 50, 0, 50) in steps(old, new) and steps(old, new)[-1] == ("equal", 60, 300, 250, 490)  # fmt: skip


# Narrowing.


LINES = {1: b"a\n", 2: b"b\n", 3: b"c\n"}


@pytest.mark.parametrize(("past", "kept"), [(None, [1, 2, 3]), (b"a\nb\nc\n", []), (b"a\nc\n", [2]), (b"x\nb\nc\n", [1]), (b"a\r\nb\rc\n", []), (b"", [1, 2, 3]), (b"b\nc\n", [1])])  # fmt: skip
def test_only_findings_on_changed_lines(past: bytes | None, kept: list[int]) -> None:
    whole = report(file(*(finding(n) for n in LINES), before=b"".join(LINES.values())))
    found = narrowing.only_changed(whole, {} if past is None else {"a.py": past})
    assert [one.line for one in found.files[0].findings] == kept
    over = report(file(finding(1, end_line=2), before=b"a\nb\nc\n"))
    assert len(narrowing.only_changed(over, {"a.py": b"a\nx\nc\n"}).files[0].findings) == 1
    assert len(narrowing.only_changed(over, {"a.py": b"a\nb\nx\n"}).files[0].findings) == 0
    unread = report(FileResult("a.py", "unchanged", None, (finding(),), None))
    assert len(narrowing.only_changed(unread, {"a.py": b""}).files[0].findings) == 1


def test_a_baseline_is_read_back_or_said_to_be_none() -> None:
    whole = report(file(finding(1), finding(2, message="other"), before=b"a\nb\n"), file(finding(1), path="b.py"))  # fmt: skip
    data = narrowing.baseline_of(whole)
    found = narrowing.read_baseline(data.encode(), "b")
    assert [(one.path, one.code, one.message) for one in found.findings] == [("a.py", "HPU515", "m"), ("a.py", "HPU515", "other"), ("b.py", "HPU515", "m")]  # fmt: skip
    left, known, gone = narrowing.without(report(whole.files[0]), found)
    assert ([len(one.findings) for one in left.files], known, gone) == ([0], 2, 1)
    failed = report(file(finding(), status="failed"))
    assert len(narrowing.without(failed, narrowing.read_baseline(narrowing.baseline_of(failed).encode(), "b"))[0].files[0].findings) == 1  # fmt: skip
    for bad in (b"{", b"\xff", b"[]"):
        with pytest.raises(HpushimError, match=r"^b: not a baseline \(.*\); write one with --write-baseline$"):  # fmt: skip
            narrowing.read_baseline(bad, "b")
    other = json.dumps({**json.loads(data), "schema_version": 99}).encode()
    with pytest.raises(HpushimError, match=rf"^b: a baseline of version 99, expected {narrowing.BASELINE_VERSION}; write it anew with --write-baseline$"):  # fmt: skip
        narrowing.read_baseline(other, "b")


@pytest.mark.parametrize("value", ["a\udc80", "a\ud800", "\udcff\ud800"])
def test_names_that_are_not_utf_8_are_json(value: str) -> None:
    found = json.loads(as_json.dumps({value: [value, (value, 3)]}))
    ((key, items),) = found.items()
    assert items == [key, [key, 3]] and key == key.encode().decode()
    assert key == ("a\\x80" if value == "a\udc80" else value.encode("utf-8", "backslashreplace").decode())  # fmt: skip
    assert as_json.render_json(report()) == as_json.dumps(as_json.as_data(report()))


# Words.


@pytest.mark.parametrize("number", [25, 26, 27, 28])
def test_places_of_one_message_are_cut(number: int) -> None:
    said = render(report(file(*(finding(n + 1) for n in range(number)), before=b"x\n" * number)))
    shown = len(re.findall(r"^    a\.py:\d+:2: ", said, re.MULTILINE))
    assert shown == (number if number <= 26 else 25)
    assert (f"    and {number - 25} more places (--format concise lists all)" in said) == (number > 26)  # fmt: skip


@pytest.mark.parametrize("number", [12, 13, 14, 20, 21, 22])
def test_pieces_of_work_are_cut_in_each_format(number: int) -> None:
    whole = report(*(file(finding(1, code=f"HPU5{n:02}", message=f"cause {n}: x"), path=f"f{n}.py") for n in range(number)))  # fmt: skip
    pieces = len(assess(whole).summary.work)
    assert pieces == number
    said = render(whole)
    more = f"    and {number - 12} more piece{'s' if number > 13 else ''} (--format html lists all)"
    assert (more in said) == (number > 12)
    page = render(whole, "html")
    assert (f"{number - html._WORKS} more piece" in page) == (number > html._WORKS)
    table = render(whole, "markdown")
    assert (f"… and {number - 20:,} more." in table) == (number > 20)


@pytest.mark.parametrize("number", [39, 40, 41])
def test_quiet_groups_are_told_by_code_where_they_are_large(number: int) -> None:
    notes = [finding(n + 1, severity="note", effect=None, message=f"note {chr(97 + n // 26)}{chr(97 + n % 26)}") for n in range(number)]  # fmt: skip
    said = render(report(file(*notes, before=b"x\n" * number)))
    assert ("  (--format concise lists every place)" in said) == (number > 40)
    assert (f"  HPU515 a-b: {number} places in 1 file\n" in said) == (number > 40)


@pytest.mark.parametrize("function", ["", "f"])
@pytest.mark.parametrize("places", [("a.py:1",), ("a.py:1", "a.py:2"), ("a.py:1", "b.py:2"), ("a.py:1", "b.py:2", "b.py:3")])  # fmt: skip
def test_where_a_piece_of_work_is(function: str, places: tuple[str, ...]) -> None:
    (work,) = assess(report(file(finding()))).summary.work
    import msgspec

    _, what, where = words.work(msgspec.structs.replace(work, places=places, function=function))
    rest = {1: "", 2: " and 1 more place", 3: " and 2 more places"}[len(places)]
    files = " (2 files)" if "b.py:2" in places else ""
    assert where == f"a.py:1{' in f' if function else ''}{rest}{files}"
    assert what == "HPU515 m"
    found = msgspec.structs.replace(work, required=False, chosen=True)
    assert [words.when(one) for one in (found, msgspec.structs.replace(found, chosen=False), msgspec.structs.replace(found, required=True))] == ["in parts that the training run does not use by default", "not needed to start training", "before it trains on Gaudi"]  # fmt: skip


@pytest.mark.parametrize("style", ["agnostic", "native"])
def test_a_run_for_every_device_is_kept_apart(style: Any) -> None:
    (run,) = json.loads(render(report(file(finding()), target=Target(style=style)), "sarif"))["runs"]  # fmt: skip
    assert run.get("automationDetails") == ({"id": "hpushim/agnostic/"} if style == "agnostic" else None)  # fmt: skip
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["properties"]["tags"][0] == ("agnostic" if style == "agnostic" else "gaudi")
    assert (rule["name"], rule["shortDescription"]) == ("AB", {"text": "a b"})


@pytest.mark.parametrize("length", [1999, 2000, 2001])
def test_a_long_message_is_cut_and_keeps_its_end(length: int) -> None:
    message = "x" * (length - 3) + "end"
    found = text._clipped(message)
    assert found == (message if length <= 2000 else f"{'x' * 1800}…{message[-200:]}")
    assert text._short("a" * 110) == "a" * 110 and text._short("a" * 111) == "a" * 110 + " …"
    assert (
        text._short("one " * 40) == "one " * 27 + "…"
        and text._short("`a. b` stops; c") == "`a. b` stops"
    )
    assert text._short("what; why. more") == "what" and text._short("what. why; more") == "what"


@pytest.mark.parametrize(
    ("messages", "also"),
    [(["`a` x"], ""), (["`a` x", "`a` x"], ""), (["`a` x", "`b` x"], "(the same for `b`) "), (["`a` x", "`b` x", "`c` x"], "(the same for `b` and `c`) "),
     (["`a`", "`b`", "`c`", "`d`"], "(the same for `b`, `c` and `d`) "), (["`a`", "`b`", "`c`", "`d`", "`e`"], "(the same for `b`, `c`, `d` and 1 more) "),
     (["`a` `b`", "`a` `c`"], "(the same for `c`) "), (["`a` `b` `x`", "`c` `d` `x`"], "(the same for `c` with `d`) "), (["`'a'` `b`", "`\"a\"` `b`"], ""), (["`a`", f"`{'b' * 60}`"], f"(the same for `{'b' * 49}…`) ")],
)  # fmt: skip
def test_for_what_else_the_same_is_said(messages: list[str], also: str) -> None:
    assert text._also(messages) == also


def test_dependencies_are_listed_in_text_and_markdown() -> None:
    one = Dependency("zq", 2, True, "files", "1.0", "compiled for CUDA", "a.so")
    whole = report(file(), dependencies=(one,))
    assert "Dependencies (in brackets: how many files import it; 0: only a requirement; what the training code imports comes first)" in render(whole)  # fmt: skip
    assert "  zq 1.0: 2 files: compiled for CUDA, and its code does not mention hpu (a.so)" in render(whole)  # fmt: skip
    table = render(whole, "markdown")
    assert "### Dependencies\n\n| package | what is known |\n|---|---|\n| zq 1.0 | 2 files: compiled for CUDA" in table  # fmt: skip


def test_a_terminal_has_colours_and_the_same_words() -> None:
    whole = report(file(finding(severity="error"), before=b"x = 1\n"))
    coloured = render(whole, "text", color=True)
    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == render(whole).split()


@pytest.mark.parametrize(("status", "other"), [("failed", "unchanged"), ("unchanged", "failed")])
@pytest.mark.parametrize("stage", ["migrated", "before"])
def test_no_script_is_named_that_could_not_be_read(status: str, other: str, stage: str) -> None:
    fix = Fix("t", "safe", (Edit(Span(0, 1), "x", "y"),))
    pending = finding(severity="error", safety="safe", fix=fix, applied=stage == "migrated")
    files = (
        file(path="train.py", status=status),
        file(pending, path="b.py", status="unchanged"),
        file(path="c.py", status=other),
    )
    made = report(*files, program="train.py", stage=stage)
    assert ("stops them" in assess(made).summary.sentence) == (status == "failed")
    named = any("train.py" in command for command, _ in words.steps(assess(made)))
    assert named == (status != "failed")


def test_the_name_of_a_finding_is_the_one_that_earlier_releases_gave_it() -> None:
    """Baselines are kept in repositories: another name would be a new finding."""
    one = file(finding(), finding(), finding(2, message="line 7 of \udce9"), finding(code="HPU101"))
    assert fingerprints.fingerprints(one) == (
        "d86e03293e12bc2cd4cc",
        "ecd352d52909bb3d359a",
        "1540549614401bc87795",
        "e3236be6382e04b3f4ae",
    )


@pytest.mark.parametrize(
    ("applied", "severity", "fails"),
    [(True, "warning", False), (True, "note", False), (False, "warning", True), (False, "error", True), (False, "note", False), (False, "unknown", True)],
)  # fmt: skip
def test_what_fails_in_junit_is_left_to_do(applied: bool, severity: str, fails: bool) -> None:
    one = finding(severity=severity, applied=applied, safety="safe" if applied else "manual")
    (item,) = assess(report(file(one), stage="migrated" if applied else "before")).items
    case = junit._case("a.py", item)
    assert (case.get("classname"), case.get("name"), case.get("time")) == ("a.py", "HPU515 a-b 1:2", "0")  # fmt: skip
    failure, out = case.find("failure"), case.find("system-out")
    assert (failure is not None, out is not None) == (fails, not fails)
    if failure is not None:
        assert failure.get("type") == severity and str(failure.text).startswith("a.py:1:2: m")
        assert str(failure.get("message")).startswith("m")


@pytest.mark.parametrize(
    ("kernel", "other", "around", "said"),
    [
        ("a/k.cu", "a/m.py", (), True), ("a/csrc/k.cu", "a/m.py", (), True), ("a/csrc/cuda/k.cu", "a/m.py", (), False), ("a/k.cu", "b/m.py", (), False), ("a/k.cu", "a/m.py", ("a/m.py",), False), ("a/k.cu", "a/m.yaml", (), False), ("k.cu", "m.py", (), True),
    ],
)  # fmt: skip
def test_kernels_beside_code_that_is_needed_are_no_obstacle(kernel: str, other: str, around: tuple[str, ...], said: bool) -> None:  # fmt: skip
    made = report(file(path=other), kernels=(Kernels(kernel, 3),), around=frozenset(around))
    assert ("other, slower code" in verdict._reference(made, ())) is said


@pytest.mark.parametrize("status", ["changed", "unchanged", "skipped"])
def test_each_file_that_was_changed_has_a_line(status: str) -> None:
    one = file(finding(applied=True, safety="safe"), path="a b.py", status=status, after=b"y = 1\nz = 2\n")  # fmt: skip
    shown = text.render_text(report(one, stage="migrated"))
    assert ("a b.py': 1 rewrite, +2 -1 lines" in shown or "a b.py: 1 rewrite, +2 -1 lines" in shown) is (status == "changed")  # fmt: skip
