"""Edits into text: groups, conflicts, proofs, and the way back, also on random edit sets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpushim.engine import plan as plans
from hpushim.engine.base import edits as texts
from hpushim.engine.plan import Group
from hpushim.engine.python.module import Module
from hpushim.engine.python.proof import unproven
from hpushim.engine.settle import Made, together
from hpushim.model import Edit, Finding, Fix, Span, Target

TARGET = Target()


def edit(data: bytes, start: int, end: int, new: str) -> Edit:
    return Edit(Span(start, end), data[start:end].decode(), new)


def finding(code: str, edits: tuple[Edit, ...], group: str = "") -> Finding:
    fix = Fix("t", "safe", edits, group)
    return Finding(code, "n", "warning", "safe", "m", Span(0, 0), 1, 1, 1, 1, None, fix)


def planned(data: bytes, findings: list[Finding], allowed: list[bool] | None = None) -> plans.Plan:
    nothing: list[tuple[()]] = [()] * len(findings)
    found = plans.groups(findings, nothing, allowed or [True] * len(findings))
    return plans.plan_edits(data, found)


def test_identical_edits_are_made_once() -> None:
    data = b"a b c"
    shared = edit(data, 0, 0, "import x\n")
    plan = planned(
        data,
        [
            finding("HPU901", (shared, edit(data, 0, 1, "A"))),
            finding("HPU902", (shared, edit(data, 2, 3, "B"))),
        ],
    )
    assert texts.splice(data, plan.edits) == b"import x\nA B c"
    assert len(plan.taken) == 2


def test_a_group_with_one_member_that_is_not_allowed_falls() -> None:
    data = b"a b"
    both = [
        finding("HPU901", (edit(data, 0, 1, "A"),), "g"),
        finding("HPU902", (edit(data, 2, 3, "B"),), "g"),
    ]
    assert planned(data, both).edits
    assert not planned(data, both, [True, False]).edits


def test_of_overlapping_fixes_the_wider_goes_first_and_the_other_waits() -> None:
    data = b"abcdef"
    inner = finding("HPU901", (edit(data, 2, 3, "X"),))
    outer = finding("HPU902", (edit(data, 0, 6, "Y"),))
    for order in ([inner, outer], [outer, inner]):
        plan = planned(data, order)
        assert texts.splice(data, plan.edits) == b"Y"
        assert [group.codes for group in plan.waiting] == [("HPU901",)]


def test_a_group_waits_whole() -> None:
    data = b"abcdef"
    first = finding("HPU901", (edit(data, 0, 2, "X"),))
    second = finding("HPU902", (edit(data, 1, 3, "Y"), edit(data, 5, 6, "Z")))
    plan = planned(data, [first, second])
    assert texts.splice(data, plan.edits) == b"Xcdef"


def test_insertions_at_one_place_keep_the_order_of_their_findings() -> None:
    data = b"x"
    plan = planned(
        data,
        [finding("HPU901", (edit(data, 0, 0, "1"),)), finding("HPU902", (edit(data, 0, 0, "2"),))],
    )
    assert texts.splice(data, plan.edits) == b"12x"


def test_an_edit_of_other_text_is_refused() -> None:
    data = b"abc"
    wrong = finding("HPU901", (Edit(Span(0, 1), "z", "A"),))
    plan = planned(data, [wrong])
    assert not plan.edits
    assert "expected 'z' and found 'a'" in plan.broken[0][1]


def test_an_edit_outside_of_the_text_is_refused() -> None:
    plan = planned(b"abc", [finding("HPU901", (Edit(Span(2, 9), "c", "A"),))])
    assert "outside the text" in plan.broken[0][1]


def test_edits_of_one_fix_that_overlap_are_refused() -> None:
    data = b"abc"
    plan = planned(data, [finding("HPU901", (edit(data, 0, 2, "A"), edit(data, 1, 3, "B")))])
    assert plan.broken[0][1] == "its own edits overlap"


@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        ("x = 1\ny = 2  # '''\n", "1", "'''"),
        ("x = 1\ny = 2\nif z:\n    a\nb  # '''\n", "y = 2", "'''"),
    ],
)
def test_what_reaches_beyond_its_place_is_not_proved(before: str, old: str, new: str) -> None:
    data = before.encode()
    at = before.index(old)
    edits = (Edit(Span(at, at + len(old)), old, new),)
    after = texts.splice(data, edits).decode()
    modules = Module(before, "a.py", TARGET, None), Module(after, "a.py", TARGET, None)  # type: ignore[arg-type]
    touched = {modules[0].tree.body[before[:at].count("\n")]}
    assert unproven(*modules, edits, touched) is not None


# -- random edit sets -------------------------------------------------------------------------

TEXT = "".join(chr(97 + i % 26) for i in range(60))
spans = st.tuples(st.integers(0, 60), st.integers(0, 6)).map(lambda p: (p[0], min(p[0] + p[1], 60)))
single = st.tuples(spans, st.sampled_from(["", "X", "YY", "é", "\n"]))
fixes = st.lists(single, min_size=1, max_size=3)
sets = st.lists(st.tuples(fixes, st.sampled_from(["", "", "g", "h"])), max_size=12)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(sets)
def test_random_fixes_are_all_or_none_and_nothing_else_moves(case: list[object]) -> None:
    data = TEXT.encode()
    findings = [
        finding(f"HPU{900 + n}", tuple(edit(data, s, e, new) for (s, e), new in fix), group)
        for n, (fix, group) in enumerate(case)  # type: ignore[misc]
    ]
    plan = planned(data, findings)
    after = texts.splice(data, plan.edits)

    # Every group is whole: all its edits are made, or none that is not shared with a taken one.
    taken = {e for unit in plan.taken for e in unit.edits}
    assert set(plan.edits) == taken and len(plan.edits) == len(taken)
    for unit in plan.waiting:
        assert not set(unit.edits) <= taken

    # Ordered and apart.
    for a, b in zip(plan.edits, plan.edits[1:], strict=False):
        assert a.span.end <= b.span.start

    # What lies between the edits is there in the same order, and leads back.
    kept = re.escape(data[: plan.edits[0].span.start]) if plan.edits else re.escape(data)
    for a, b in zip(plan.edits, [*plan.edits[1:], None], strict=False):
        until = b.span.start if b else len(data)
        kept += re.escape(a.new.encode()) + re.escape(data[a.span.end : until])
    assert re.fullmatch(kept, after, re.DOTALL)

    places = texts.Places(plan.edits)
    for offset in range(len(data)):
        if not any(e.span.start <= offset <= e.span.end for e in plan.edits):
            now = places.after(offset)
            assert after[now : now + 1] == data[offset : offset + 1]
            assert places.before(now) == offset
    # Two runs agree.
    assert planned(data, findings).edits == plan.edits


@given(st.lists(sets, min_size=2, max_size=4))
def test_steps_composed_are_the_steps_one_after_the_other(cases: list[Any]) -> None:
    data = TEXT.encode()
    current, steps = data, []
    for case in cases:
        size = len(current)
        findings = []
        for number, (fix, _) in enumerate(case):
            try:
                for (s, e), _ in fix:
                    current[: min(s, size)].decode(), current[: min(e, size)].decode()
                made = tuple(edit(current, min(s, size), min(e, size), new) for (s, e), new in fix)
            except UnicodeDecodeError:
                continue  # it would cut a character in two
            findings.append(finding(f"HPU{900 + number}", made))
        made = planned(current, findings).edits
        steps.append(made)
        current = texts.splice(current, made)
    whole = texts.composed(data, steps)
    assert texts.splice(data, whole) == current
    for one, other in pairwise(whole):
        assert one.span.end < other.span.start or (
            one.span.end <= other.span.start and one.span != other.span
        )


def test_what_cannot_be_made_together_is_made_one_after_the_other() -> None:
    """One rewrite that does not go with another takes nobody else with it."""
    first, second, third = (Group([n], (f"HPU90{n}",)) for n in range(3))

    class Clash:
        def make(self, found: Any, taken: Sequence[Group]) -> Made:
            return Made("", why="they clash" if {0, 1} <= {g.members[0] for g in taken} else None)

    taken, refused = together(None, [first, second, third], Clash())  # type: ignore[arg-type]
    assert taken == [first, third]
    assert refused == [(second, "HPU004", "they clash")]
