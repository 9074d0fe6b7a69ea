"""What a comment silences: which directives count, for which lines, and which are wrong or idle."""

from __future__ import annotations

from typing import Any

import pytest

from hpushim.engine import suppress
from hpushim.engine.base.text import Text
from hpushim.model import Edit, Finding, Fix, Span, Target

ABOVE = "`ignore-file` works only above the first statement; move it there"


@pytest.mark.parametrize(
    ("text", "python", "expected"),
    [
        ("x = 1  # hpushim: ignore[HPU101]\n", True, [(1, False, ("HPU101",), None)]), ("#hpushim:ignore[ hpu101 , HPU102,]\n", True, [(1, False, ("HPU101", "HPU102"), None)]), ("x = '# hpushim: ignore[HPU101]'\n", True, []), ("x = '# hpushim: ignore[HPU101]'\n", False, [(1, False, ("HPU101",), None)]),
        ("x\n# hpushim: ignored[HPU101]\n", True, [(2, False, (), "`hpushim: ignored` is unknown; write `ignore[HPU…]` or `ignore-file[HPU…]`")]), ("# hpushim: ignore\n", True, [(1, False, (), "`hpushim: ignore` names no code; write `ignore[HPU102]`")]), ("# hpushim: ignore-file[]\n", True, [(1, True, (), "`hpushim: ignore-file` names no code; write `ignore-file[HPU102]`")]),
        ("# hpushim: ignore[HPU101, E501]\n", True, [(1, False, (), "`E501` is not a code; codes look like HPU102")]), ("# hpushim: ignore-file[HPU101]\nx = 1\n", True, [(1, True, ("HPU101",), None)]), ("x = 1\n# hpushim: ignore-file[HPU101]\n", True, [(2, True, (), ABOVE)]),
        ("é = 'ü'  # ü # hpushim: ignore[HPU101]\r\ny # hpushim: ignore[HPU102]\n", True, [(1, False, ("HPU101",), None), (2, False, ("HPU102",), None)]), ("x = (\n# hpushim: ignore[HPU101]\n", True, [(2, False, ("HPU101",), None)]),
    ],
)  # fmt: skip
def test_directives(text: str, python: bool, expected: list[Any]) -> None:
    found = suppress._directives(Text(text, "a.py", Target(), None), python=python)
    assert [(one.line, one.whole_file, one.codes, one.wrong) for one in found] == expected
    assert all(text.encode()[one.span.start : one.span.end].startswith(b"#") for one in found)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("x = 1\n", 0), ("# a\n\nx = 1\n", 2), ('"""One."""\nx = 1\n', 1), ('"""One\ntwo\n"""\nx = 1\n', 3), ("'''One\n# two'''\n# three\nx = 1\n", 3), ('r"""One\ntwo"""\nx\n', 2), ("'one'\nx\n", 1), ("'one\nx\n", 1), ("// a\n--- b\nx\n", 2), ("# a\n", 2), ("", 1), ('"""a\n', 2),
        ('""\nx\n', 1), ("'a' + 'b'\nx\n", 1),
    ],
)  # fmt: skip
def test_where_the_head_of_a_file_ends(text: str, last: int) -> None:
    assert suppress._header_end(Text(text, "a.py", Target(), None)) == last


def _finding(line: int, code: str = "HPU101", end: int = 0, group: str | None = None) -> Finding:
    fix = None if group is None else Fix("t", "safe", (Edit(Span(0, 1), "a", "b"),), group=group)
    return Finding(code, "n", "warning", "safe", "m", Span(0, 1), line, 1, end or line, 2, fix=fix)


TEXT = "# hpushim: ignore-file[HPU109]\na\nb  # hpushim: ignore[HPU101, HPU102]\n  # hpushim: ignore[HPU103]\nc  # hpushim: ignore[HPU104]\n"


def _run(*findings: Finding, assessed: tuple[str, ...] = ("HPU101", "HPU102", "HPU103", "HPU104", "HPU109")) -> Any:  # fmt: skip
    kept, held = suppress.suppress(
        Text(TEXT, "a.py", Target(), None), list(findings), lambda: assessed, python=True
    )
    own = [one for one in kept if one.code != "HPU007"]
    said = [(one.line, one.column, one.end_column, one.message, one.fix) for one in kept if one.code == "HPU007"]  # fmt: skip
    return own, held, said


def test_a_finding_on_the_line_of_a_directive_goes() -> None:
    stays = [_finding(2), _finding(3, "HPU109x"), _finding(4), _finding(5, "HPU101")]
    goes = [_finding(3), _finding(2, "HPU102", 3, group="g"), _finding(1, "HPU109", group=""), _finding(5, "HPU109")]  # fmt: skip
    own, held, said = _run(*stays, *goes, assessed=("HPU101", "HPU102", "HPU109"))
    assert (own, held, said) == (stays, frozenset({"g"}), [])


def test_a_directive_that_silences_nothing_is_told() -> None:
    _, _, said = _run(_finding(3), assessed=("HPU101", "HPU102", "HPU103", "HPU109"))
    texts = [(line, column, end, message, fix and [(one.span, one.old, one.new) for one in fix.edits]) for line, column, end, message, fix in said]  # fmt: skip
    place = TEXT.index("  # hpushim: ignore[HPU103]\n")
    whole = "# hpushim: ignore-file[HPU109]\n"
    assert texts == [
        (1, 1, 31, "`# hpushim: ignore-file[HPU109]` suppresses no finding (HPU109); remove it", [(Span(0, len(whole)), whole, "")]),
        (3, 4, 37, "`# hpushim: ignore[HPU101, HPU102]` suppresses no finding (HPU102); remove it", None),
        (4, 3, 28, "`# hpushim: ignore[HPU103]` suppresses no finding (HPU103); remove it", [(Span(place, place + 28), "  # hpushim: ignore[HPU103]\n", "")]),
    ]  # fmt: skip
    _, _, said = _run(
        _finding(3), _finding(3, "HPU102"), _finding(4, "HPU103"), assessed=("HPU104",)
    )
    ((_, _, _, _, fix),) = said
    at = TEXT.index("  # hpushim: ignore[HPU104]")
    assert [(one.span, one.old) for one in fix.edits] == [(Span(at, at + 27), "  # hpushim: ignore[HPU104]")]  # fmt: skip
    assert fix.safety == "unsafe"


def test_a_file_without_directives_is_not_looked_through() -> None:
    found = [_finding(1)]
    kept, held = suppress.suppress(Text("x = 1\n", "a.py", Target(), None), found, lambda: 1 / 0, python=True)  # type: ignore[arg-type, return-value]  # fmt: skip
    assert kept is found and held == frozenset()
