"""What a session puts back, and what it says of what it cannot; with patches by hand, without torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from crossed import crossed

from hpushim.shim.session import Session


@pytest.mark.parametrize("back", crossed(*[[True, False]] * 3, rounds=4))
def test_what_is_not_put_back_is_listed(back: tuple[bool, ...]) -> None:
    """The last change first, each once; those that another has changed since are sticky."""
    session, undone = Session(), []

    def undo(number: int) -> Any:
        return lambda: undone.append(number) or back[number]

    session.active = True
    session.applied = [(SimpleNamespace(target=f"torch.{n}"), undo(n)) for n in range(3)]  # type: ignore[misc]
    session.deactivate()
    assert undone == [2, 1, 0]
    assert session.sticky == [f"torch.{n}" for n in (2, 1, 0) if not back[n]]
    assert not session.active and not session.applied
    session.deactivate()
    assert undone == [2, 1, 0]
