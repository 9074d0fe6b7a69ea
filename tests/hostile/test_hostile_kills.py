"""Runs that are cut short, in a bounded form; ``python tests/hostile/kills.py --count 1000`` is the long one."""

from __future__ import annotations

import os
from pathlib import Path

import kills
import pytest

from hpushim.engine.files import journal, runs

pytestmark = [pytest.mark.hostile("kills")]
COUNT = int(os.environ.get("HPUSHIM_HOSTILE_KILLS", "15"))


@pytest.mark.slow
def test_every_file_is_old_or_new(tmp_path: Path) -> None:
    """kills and interrupts at random moments, one and two runs at a time"""
    tally = kills.campaign(COUNT, int.from_bytes(os.urandom(4), "big"), tmp_path)
    assert not tally.faults, tally.examples
    assert tally.done["cut short"] >= COUNT


@pytest.mark.parametrize("length", [0, 1, 5, 9, 11, 12])
@pytest.mark.parametrize("back", [False, True], ids=["forth", "back"])
def test_a_file_of_two_names_that_was_left_torn(tmp_path: Path, length: int, back: bool) -> None:
    """a run was killed in the middle of a file that must be written in place"""
    old, new = b"old old old\n", b"new new\n"
    path = tmp_path / "a.py"
    path.write_bytes(old)
    os.link(path, tmp_path / "b.py")
    assert journal.write(tmp_path, [journal.Change(path, old, new)]) == {}
    first, second = (new, old) if back else (old, new)
    torn = second[:length] + first[min(length, len(second)) :]
    with (tmp_path / "a.py").open("r+b") as file:  # in place, so that both names show it
        file.truncate(0)
        file.write(torn)
    next((tmp_path / ".hpushim" / "runs").glob("*/done")).unlink()
    journal.tidy(tmp_path)
    assert path.read_bytes() in (old, new)
    assert journal.undo(tmp_path).restored == ("a.py",)
    assert path.read_bytes() == (tmp_path / "b.py").read_bytes() == old


def test_an_edit_after_a_kill_is_not_taken_for_a_tear(tmp_path: Path) -> None:
    """somebody edited the file after the run was killed"""
    path = tmp_path / "a.py"
    path.write_bytes(b"old\n")
    os.link(path, tmp_path / "b.py")
    assert journal.write(tmp_path, [journal.Change(path, b"old\n", b"new\n")]) == {}
    next((tmp_path / ".hpushim" / "runs").glob("*/done")).unlink()
    with path.open("r+b") as file:
        file.write(b"mine\n")
    journal.tidy(tmp_path)
    assert path.read_bytes() == b"mine\n"
    assert "edited" in journal.undo(tmp_path).refused[0][1]


def test_a_run_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """another run holds the journal for ever: told, nothing changed"""
    path = tmp_path / "a.py"
    path.write_bytes(b"old\n")
    monkeypatch.setattr(runs, "PATIENCE", 0.1)
    with runs.opened(tmp_path, make=True):
        with pytest.raises(journal.HpushimError, match="another run is writing here"):
            journal.write(tmp_path, [journal.Change(path, b"old\n", b"new\n")])
        assert "another run" in journal.undo(tmp_path).unused[0][1]
    assert path.read_bytes() == b"old\n"
