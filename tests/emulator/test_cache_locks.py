"""The cache of built libraries: which lock is held, and what is dropped; without torch."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from hpushim.emulator import cache, ledger_file


@pytest.mark.parametrize("meanwhile", ["stays", "goes", "is another"])
def test_a_lock_is_held_by_its_name(tmp_path: Path, meanwhile: str) -> None:
    """Who waited for a lock whose file was dropped meanwhile holds nothing."""
    path = tmp_path / "a.lock"
    with path.open("w") as held:
        if meanwhile != "stays":
            path.rename(tmp_path / "gone")
        if meanwhile == "is another":
            path.touch()
        assert cache._is_still(path, held) is (meanwhile == "stays")


@pytest.mark.parametrize("what", ["nothing", "a library", "a build", "another build"])
@pytest.mark.parametrize("busy", [True, False])
def test_locks_of_what_is_no_more_are_dropped(tmp_path: Path, what: str, busy: bool) -> None:
    made = {"a library": "torch", "a build": ".torch.x1", "another build": ".other.x1"}.get(what)
    if made:
        (tmp_path / made).mkdir()
        (tmp_path / made / cache._MARK).touch()
    lock = tmp_path / "torch.lock"
    lock.touch()
    kept = what == "a library" or busy
    if busy:
        with cache.build_lock(tmp_path, "torch") as mine:
            assert mine
            cache.drop_old(tmp_path)
    else:
        cache.drop_old(tmp_path)
    # What a killed build has left goes first, and with it the reason to keep its lock.
    assert lock.exists() is kept
    assert (tmp_path / "torch").exists() is (what == "a library")
    assert (tmp_path / ".torch.x1").exists() is (what == "a build" and busy)
    assert not (tmp_path / ".other.x1").exists()


@pytest.mark.parametrize("kind", ["file", "folder", "link", "link to nothing", "nothing"])
def test_whether_a_name_is_taken(tmp_path: Path, kind: str) -> None:
    """A link is there, whatever it leads to: nothing is written through it."""
    path = tmp_path / "a"
    if kind == "file":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind != "nothing":
        path.symlink_to(tmp_path if kind == "link" else tmp_path / "nowhere")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert ledger_file._is_there("a", folder) is (kind != "nothing")
    finally:
        os.close(folder)


def test_a_library_that_is_held_is_not_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(cache, "_held", [])
    used, gone, elsewhere = (tmp_path / name / "lib.so" for name in ("used", "gone", "elsewhere"))
    for library in (used, gone, elsewhere):
        library.parent.mkdir()
    for library in (used, elsewhere):
        library.touch()
    for library in (used, gone):
        cache.mark(library.parent)
        os.utime(library.parent / cache._MARK, (1, 1))
    assert [cache.hold(library) for library in (used, gone, elsewhere, tmp_path / "x/y")] == [True, False, True, False]  # fmt: skip
    assert (used.parent / cache._MARK).stat().st_mtime > 1
    with (used.parent / cache._MARK).open() as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for held in cache._held:
            held.close()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
