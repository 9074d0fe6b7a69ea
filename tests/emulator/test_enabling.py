"""The folder that children find: made once, also where two processes make it at the same time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hpushim.emulator import enabling
from hpushim.errors import HpushimError
from hpushim.matrix import load


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPUSHIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "environment"


@pytest.mark.parametrize("taken", [True, False])
def test_the_folder_of_another_process_is_used_and_none_is_left_behind(
    taken: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``replace`` fails where the folder has come meanwhile, or for another reason."""

    def fails(self: Path, target: Path) -> Path:
        if taken:
            shutil.copytree(self, target)
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(Path, "replace", fails)
    if taken:
        folder = enabling._child_folder("1.24.1")
        assert [one.name for one in root.iterdir()] == [folder.name]
        assert (folder / "bin" / "hl-smi").stat().st_mode & 0o111
        monkeypatch.undo()
    else:
        with pytest.raises(HpushimError):
            enabling._child_folder("1.24.1")
        assert list(root.iterdir()) == []


def test_it_is_made_once(root: Path) -> None:
    first = enabling._child_folder("1.24.1")
    inode = first.stat().st_ino
    assert enabling._child_folder("1.24.1") == first and first.stat().st_ino == inode
    assert enabling._child_folder("1.24") != first
    assert {one.name for one in first.iterdir()} == {"bin", "habana_torch_plugin-1.24.1.dist-info"}


def test_without_a_word_it_is_the_newest_release(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HPUSHIM_STACK", raising=False)
    releases = list(load().releases)
    newest = max(releases, key=lambda one: tuple(map(int, one.split("."))))
    assert enabling.newest_stack() == newest
    for one in releases:
        monkeypatch.setenv("HPUSHIM_STACK", one)
        assert enabling.newest_stack() == one
        assert enabling.environment()["PYTHONPATH"].split(":")[1].find(f"/{one}") > 0
