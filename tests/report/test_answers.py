"""The answer that nothing is known of a name: what is cut is counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hpushim.model import Target
from hpushim.report.answers import unknown


@pytest.mark.parametrize("near", [0, 2])
@pytest.mark.parametrize("count", [0, 1, 11, 12, 13, 14, 40])
def test_rows_that_hold_the_name_are_shown_up_to_twelve(count: int, near: int) -> None:
    names = [f"ours.f{number}" for number in range(count + near)]
    answer: Any = SimpleNamespace(
        name="f", above=None, holding=[SimpleNamespace(name=name) for name in names]
    )
    told = unknown(None, answer, Target(), names[:near])  # type: ignore[arg-type]
    line = next((one for one in told.split("\n") if "contain it" in one), "")
    shown = [name for name in names[near:] if name in line.replace(",", " ").split()]
    assert shown == names[near : near + 12]
    assert line.endswith(f" and {count - 12} more") is (count > 12)
    assert (" more" in line) is (count > 12)
    assert ("`hpushim matrix show` lists" in told) is (count + near == 0)
