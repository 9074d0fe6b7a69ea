"""Which rule reports a place, and what rules say of places that no other has reported."""

from __future__ import annotations

import pytest
import toys
from hypothesis import given
from hypothesis import strategies as st

from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.data.document import Document
from hpushim.engine.one_file import examine, settle
from hpushim.engine.rules.claims import Claims, Said
from hpushim.engine.rules.rule import Strength
from hpushim.model import Edit, Fix, Span


def found(text: str) -> list[tuple[str, int, str]]:
    return [(f.code, f.line, f.safety) for f in examine(text, "python", "a.py", toys.context())]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("odd\n", [1]),
        ("breakpoint(odd)\n", [1]),
        ("wrap(odd)\n", []),
        ("wrap(1); odd\n", [1]),  # that one goes, and tells of no more than it touches
        ("old_name = 1\nodd\n", [2]),
    ],
)
def test_the_rest_is_what_no_finding_tells_of(
    monkeypatch: pytest.MonkeyPatch, text: str, lines: list[int]
) -> None:
    toys.use(monkeypatch, toys.Wraps, toys.Rest, toys.Swap)
    assert [line for code, line, _ in found(text) if code == "HPU912"] == lines


def test_what_a_rewrite_leaves_behind_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    toys.use(monkeypatch, toys.Wraps, toys.Rest)
    settled = settle("x = 1\ny = wrap(odd)\n", "python", "a.py", toys.context())
    assert settled.text == "x = 1\ny = odd\n"
    assert [(f.code, f.line, f.applied) for f in settled.findings] == [
        ("HPU911", 2, True),
        ("HPU912", 2, False),
    ]


def test_a_finding_of_the_first_text_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    toys.use(monkeypatch, toys.Wraps, toys.Rest, toys.Swap)
    settled = settle("odd(old_name)\nz = wrap(1)\n", "python", "a.py", toys.context())
    assert [f.code for f in settled.findings] == ["HPU912", "HPU901", "HPU911"]


def test_what_is_kept_is_not_told_but_for_what_is_open_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toys.use(monkeypatch, toys.Keeps, toys.Rest, toys.Swap)
    text = "keep\nodd\nold_name\nopen_(odd, old_name)\n"
    assert found(text) == [("HPU912", 4, "manual"), ("HPU901", 4, "unsafe")]
    assert settle(text, "python", "a.py", toys.context()).text == text
    daring = settle(text, "python", "a.py", toys.context(unsafe=True))
    assert daring.text == "keep\nodd\nold_name\nopen_(odd, new_name)\n"


def test_a_rule_that_fails_when_it_finishes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails(toys.Rest):
        def finish(self, *_: object) -> object:  # type: ignore[override]
            raise KeyError("rest")

    toys.use(monkeypatch, Fails, toys.Swap)
    assert [code for code, _, _ in found("odd(old_name)\n")] == ["HPU004", "HPU901"]


SPANS = st.builds(lambda a, b: Span(min(a, b), max(a, b)), st.integers(0, 12), st.integers(0, 12))
CLAIMED = st.sampled_from([Strength.OPEN, Strength.USUAL, Strength.FIRM])
REPORTED = st.sampled_from([Strength.USUAL, Strength.FIRM])
TEXT = Document("x" * 12, "a.sh", "shell", toys.context().target, toys.context().matrix)


def around(one: Span, other: Span) -> bool:
    return one.start <= other.start and other.end <= one.end


@given(st.lists(st.tuples(st.booleans(), SPANS, CLAIMED), max_size=6), SPANS, REPORTED)
def test_a_finding_gives_way_to_claims_that_are_as_strong(
    drawn: list[tuple[bool, Span, Strength]], asked: Span, strength: Strength
) -> None:
    """By the words of the strengths: ``own`` claims do not count, unless the code never runs."""
    nested: dict[Span, tuple[bool, Strength]] = {}
    for own, span, claimed in drawn:
        apart = (
            around(s, span) or around(span, s) or s.end < span.start or span.end < s.start
            for s in nested
        )
        if span not in nested and all(apart):
            nested[span] = own, claimed
    whole = Span(0, 12)
    claims = Claims(((own, span, claimed) for span, (own, claimed) in nested.items()), whole)
    held = sorted((s for s in nested if around(s, asked)), key=lambda s: s.end - s.start)
    others = [nested[s][1] for s in held if not nested[s][0]]
    kept = whole in held and nested[whole] == (False, Strength.USUAL)
    if Strength.FIRM in [nested[s][1] for s in held]:
        wanted = "drop"
    elif not others:
        wanted = "report"
    elif others[0] == Strength.OPEN:
        wanted = "unsafe"
    elif strength == Strength.USUAL:
        wanted = "drop"
    else:
        wanted = "unsafe" if Strength.OPEN in others else "manual" if kept else "report"
    assert claims.assess(asked, True, strength) == wanted
    assert claims.holds(asked) == bool(held and nested[held[0]][1] > Strength.OPEN)


@given(st.lists(SPANS, max_size=6), SPANS)
def test_what_is_rewritten_tells_of_what_it_touches(spans: list[Span], asked: Span) -> None:
    findings = [
        diagnostic("HPU007", "x", span, (1, 1), (1, 1), Fix("x", "safe", (Edit(span, "", "y"),)))
        for span in spans
    ]
    touched = any(s.start < asked.end and asked.start < s.end for s in spans)
    assert Said(TEXT, findings).of(asked) == ("rewritten" if touched else "")
