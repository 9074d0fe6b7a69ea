"""What migrate wrote can be taken back, byte for byte, whatever happens in between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpushim.engine.files import journal, runs
from hpushim.errors import HpushimError
from hpushim.safe_files import Folder


def change(path: Path, after: bytes) -> journal.Change:
    return journal.Change(path, path.read_bytes(), after)


def make(folder: Path, name: str, data: bytes = b"old\n", mode: int = 0o644) -> Path:
    path = folder / name
    path.write_bytes(data)
    path.chmod(mode)
    os.utime(path, ns=(1_500_000_000_123_456_789, 1_500_000_000_123_456_789))
    return path


def state(path: Path) -> tuple[bytes, int, int]:
    info = path.stat()
    return path.read_bytes(), info.st_mode, info.st_mtime_ns


def test_undo_restores_bytes_mode_and_time(tmp_path: Path) -> None:
    files = [make(tmp_path, "a.py", b"\xff\0\r\n", 0o755), make(tmp_path, "b c\n.py", b"", 0o600)]
    before = [state(file) for file in files]
    assert journal.write(tmp_path, [change(file, b"new\n") for file in files]) == {}
    assert [file.read_bytes() for file in files] == [b"new\n"] * 2
    assert [state(file)[1] for file in files] == [item[1] for item in before]
    assert all(state(file)[2] != item[2] for file, item in zip(files, before, strict=True))
    done = journal.undo(tmp_path)
    assert len(done.restored) == 2 and not done.refused
    assert [state(file) for file in files] == before
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert not journal.undo(tmp_path).run


def test_the_journal_is_ignored_by_git(tmp_path: Path) -> None:
    journal.write(tmp_path, [change(make(tmp_path, "a.py"), b"new")])
    assert (tmp_path / ".hpushim" / ".gitignore").read_text() == "*\n"


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.py")
    path.write_bytes(b"old")
    journal.write(tmp_path, [change(path, b"new")])
    assert journal.undo(tmp_path).restored == ('"caf\\351.py"',)
    assert path.read_bytes() == b"old"


def test_an_edited_file_is_refused_unless_forced(tmp_path: Path) -> None:
    a, b = make(tmp_path, "a.py"), make(tmp_path, "b.py")
    journal.write(tmp_path, [change(a, b"new"), change(b, b"new")])
    a.write_bytes(b"mine")
    done = journal.undo(tmp_path)
    assert done.restored == ("b.py",)
    assert done.refused[0][0] == "a.py" and "edited after migrate" in done.refused[0][1]
    assert a.read_bytes() == b"mine"
    assert journal.undo(tmp_path, force=True).restored == ("a.py",)
    assert a.read_bytes() == b"old\n"


def test_a_deleted_file_comes_back_when_forced(tmp_path: Path) -> None:
    folder = tmp_path / "pkg"
    folder.mkdir()
    path = make(folder, "a.py")
    journal.write(tmp_path, [change(path, b"new")])
    path.unlink()
    folder.rmdir()
    assert "deleted" in journal.undo(tmp_path).refused[0][1]
    assert journal.undo(tmp_path, force=True).restored == ("pkg/a.py",)
    assert path.read_bytes() == b"old\n"


def test_one_file_of_a_run_can_be_taken_back(tmp_path: Path) -> None:
    a, b = make(tmp_path, "a.py"), make(tmp_path, "b.py")
    journal.write(tmp_path, [change(a, b"new"), change(b, b"new")])
    assert journal.undo(a).restored == ("a.py",)
    assert b.read_bytes() == b"new"
    assert journal.undo(tmp_path).restored == ("b.py",)


def test_runs_are_taken_back_newest_first(tmp_path: Path) -> None:
    path = make(tmp_path, "a.py", b"1")
    journal.write(tmp_path, [change(path, b"2")])
    journal.write(tmp_path, [change(path, b"3")])
    journal.undo(tmp_path)
    assert path.read_bytes() == b"2"
    journal.undo(tmp_path)
    assert path.read_bytes() == b"1"


def test_all_names_of_a_file_show_the_new_content(tmp_path: Path) -> None:
    path = make(tmp_path, "a.py", mode=0o640)
    other = tmp_path / "other.py"
    os.link(path, other)
    before = state(path)
    journal.write(tmp_path, [change(path, b"newer than old\n")])
    assert other.read_bytes() == b"newer than old\n" and path.stat().st_nlink == 2
    journal.undo(tmp_path)
    assert state(other) == before and path.stat().st_nlink == 2


def test_two_names_of_a_file_in_one_run(tmp_path: Path) -> None:
    path = make(tmp_path, "a.py", mode=0o640)
    other = tmp_path / "other.py"
    os.link(path, other)
    before = state(path)
    assert journal.write(tmp_path, [change(path, b"new\n"), change(other, b"new\n")]) == {}
    assert path.read_bytes() == other.read_bytes() == b"new\n" and path.stat().st_nlink == 2
    assert len(journal.undo(tmp_path).restored) == 2
    assert state(path) == state(other) == before


def test_a_read_only_file_is_left(tmp_path: Path) -> None:
    path = make(tmp_path, "a.py", mode=0o444)
    other = make(tmp_path, "b.py")
    before = state(path)
    failed = journal.write(tmp_path, [change(path, b"new"), change(other, b"new")])
    assert "read-only" in failed[path]
    assert state(path) == before and other.read_bytes() == b"new"


def test_a_file_that_changed_meanwhile_is_left(tmp_path: Path) -> None:
    path = make(tmp_path, "a.py")
    stale = change(path, b"new")
    path.write_bytes(b"mine")
    assert "changed on disk" in journal.write(tmp_path, [stale])[path]
    assert path.read_bytes() == b"mine"
    assert not (tmp_path / ".hpushim").exists()


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_a_run_cut_short_can_be_taken_back(
    tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [make(tmp_path, f"{n}.py", b"old %d" % n) for n in range(3)]
    before = [state(file) for file in files]
    real, count = Folder.write, iter(range(9))

    def killed(self: Folder, name: str, data: bytes, **options: Any) -> None:
        if next(count) == stop:
            raise KeyboardInterrupt
        real(self, name, data, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            journal.write(tmp_path, [change(file, b"new") for file in files])
    assert sum(file.read_bytes() == b"new" for file in files) == stop
    assert len(journal.undo(tmp_path).restored) == 3
    assert [state(file) for file in files] == before


def test_a_fault_while_writing_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path, "a.py")
    before = state(path)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    changes = [change(path, b"new")]
    record = runs.Home.record

    def then_full(*words: Any) -> Any:
        done = record(*words)
        monkeypatch.setattr(os, "fsync", full)
        return done

    monkeypatch.setattr(runs.Home, "record", then_full)
    assert "No space left" in journal.write(tmp_path, changes)[path]
    monkeypatch.undo()
    assert state(path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [".hpushim", "a.py"]


def test_no_journal_no_change(tmp_path: Path) -> None:
    path = make(tmp_path, "a.py")
    (tmp_path / ".hpushim").write_text("in the way")
    with pytest.raises(HpushimError, match="nothing was changed"):
        journal.write(tmp_path, [change(path, b"new")])
    assert path.read_bytes() == b"old\n"


def test_a_damaged_original_is_not_put_back(tmp_path: Path) -> None:
    path = make(tmp_path, "a.py")
    journal.write(tmp_path, [change(path, b"new")])
    next((tmp_path / ".hpushim" / "runs").glob("*/0")).write_bytes(b"damaged")
    assert "damaged" in journal.undo(tmp_path, force=True).refused[0][1]
    assert path.read_bytes() == b"new"


@settings(max_examples=25)
@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), min_size=1, max_size=4))
def test_any_bytes_come_back(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[bytes, bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("undo")
    paths = [make(folder, f"{n}.py", old) for n, (old, _) in enumerate(files)]
    before = [state(path) for path in paths]
    assert not journal.write(
        folder, [change(path, new) for path, (_, new) in zip(paths, files, strict=True)]
    )
    journal.undo(folder)
    assert [state(path) for path in paths] == before
