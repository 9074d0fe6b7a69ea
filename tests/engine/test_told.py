"""What rules may say of places of which no other rule has spoken."""

from __future__ import annotations

import pytest
import toys
from hypothesis import given
from hypothesis import strategies as st

from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.one_file import examine, settle
from hpushim.engine.rules.told import Told
from hpushim.model import Edit, Fix, Span


def found(text: str) -> list[tuple[str, int, str]]:
    return [(f.code, f.line, f.safety) for f in examine(text, "python", "a.py", toys.context())]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("odd\n", [1]),
        ("bomb(odd)\n", [1]),
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


def test_a_rule_that_fails_at_the_rest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails(toys.Rest):
        def on_rest(self, *_: object) -> object:  # type: ignore[override]
            raise KeyError("rest")

    toys.use(monkeypatch, Fails, toys.Swap)
    assert [code for code, _, _ in found("odd(old_name)\n")] == ["HPU004", "HPU901"]


SPANS = st.builds(lambda a, b: Span(min(a, b), max(a, b)), st.integers(0, 12), st.integers(0, 12))


@given(st.lists(SPANS, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6), SPANS)
def test_a_place_is_kept_by_the_smallest_span_around_it(
    drawn: list[Span], values: list[bool], asked: Span
) -> None:
    nested: dict[Span, bool] = {}
    for span, value in zip(drawn, values, strict=False):
        if all(
            (s.start <= span.start and span.end <= s.end)
            or (span.start <= s.start and s.end <= span.end)
            or span.end < s.start
            or s.end < span.start
            for s in nested
        ):
            nested[span] = value
    told = Told((), [s for s, v in nested.items() if v], [s for s, v in nested.items() if not v])
    around = [s for s in nested if s.start <= asked.start and asked.end <= s.end]
    smallest = min(around, key=lambda s: s.end - s.start, default=None)
    assert told.covers(asked, 1) == (smallest is not None and nested[smallest])


@given(st.lists(SPANS, max_size=6), SPANS)
def test_what_is_rewritten_tells_of_what_it_touches(spans: list[Span], asked: Span) -> None:
    findings = [
        diagnostic("HPU007", "x", span, (1, 1), (1, 1), Fix("x", "safe", (Edit(span, "", "y"),)))
        for span in spans
    ]
    touched = any(s.start < asked.end and asked.start < s.end for s in spans)
    assert Told(findings).covers(asked, 1) == touched
