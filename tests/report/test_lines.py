"""Lines that changed in long files: the quick way goes on where the texts meet again."""

from __future__ import annotations

import pytest
from crossed import crossed

from hpushim.report.lines import Step, _meeting, steps

#: As in a program: lines of their own, and between them such as are everywhere.
OLD = [line for n in range(200) for line in (f"statement_{n} = {n}\n", "\n", "    )\n")]
NEW = [line for n in range(40) for line in (f"another_{n} = {n}\n", "\n")]
#: How many lines go, and how many come instead.
EDITS = {"changed": (1, 1), "comes": (0, 30), "goes": (24, 0), "is replaced": (12, 18), "shrinks": (60, 4), "grows": (3, 60)}  # fmt: skip


def changed(found: list[Step]) -> int:
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in found if tag != "equal")


@pytest.mark.parametrize(("edit", "other"), crossed(EDITS, EDITS))
def test_what_changed_in_a_long_file_is_what_was_edited(edit: str, other: str) -> None:
    new, wanted = list(OLD), 0
    # At both ends and between, so that neither end nor the small product helps.
    for place, kind in ((540, other), (300, edit), (3, other)):
        gone, come = EDITS[kind]
        new[place : place + gone] = NEW[:come]
        wanted += max(gone, come)
    found = steps(OLD, new)
    places = [(0, 0), *((i2, j2) for _, _, i2, _, j2 in found)]
    assert [(i1, j1) for _, i1, _, j1, _ in found] == places[:-1], "one behind the other"
    assert places[-1] == (len(OLD), len(new))
    for tag, i1, i2, j1, j2 in found:
        assert (OLD[i1:i2] == new[j1:j2]) is (tag == "equal")
    assert changed(found) <= 1.5 * wanted + 3


@pytest.mark.parametrize("gap", range(1, 4))
def test_of_two_meetings_as_near_the_first_of_the_old_lines_counts(gap: int) -> None:
    """So that the same two texts are shown alike, whichever lines they share."""
    old, new = ["p\n", *(f"{n}\n" for n in range(gap - 1)), "q\n"], ["q\n", *(f"{n + 9}\n" for n in range(gap - 1)), "p\n"]  # fmt: skip
    assert _meeting(old, new) == (0, gap)
    assert _meeting(old, new[:1]) == (gap, 0)
    assert _meeting(old, ["r\n"]) == (len(old), 1)
