"""What is worked out of files and kept: until they change, where it can be written, and never trusted when damaged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hpushim.kept import Kept
from hpushim.matrix import default_path, read_file, reader


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (path := tmp_path / "module.py").write_text("")
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (path := tmp_path / "data.toml").write_text("a = 1\n")
    return path


def test_it_is_there_until_a_file_changes(module: str, file: Path) -> None:
    Kept(module, "x", [str(file)]).write(b"worked out")
    assert Kept(module, "x", [str(file)]).read() == b"worked out"
    assert Kept(module, "y", [str(file)]).read() is None
    assert Kept(module, "x", []).read() is None
    os.utime(file, ns=(1, 1))
    assert Kept(module, "x", [str(file)]).read() is None


def test_what_is_damaged_is_not_there(module: str, file: Path) -> None:
    Kept(module, "x", [str(file)]).write(b"worked out")
    (path,) = Path(module).parent.glob("__pycache__/*")
    path.write_bytes(path.read_bytes()[:-1])
    assert Kept(module, "x", [str(file)]).read() is None


def test_nothing_is_written_where_byte_code_is_not(
    module: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Kept(module, "x", [str(file)]).write(b"worked out")
    Kept(module, "x", [str(file.parent / "missing")]).write(b"worked out")
    assert not Path(module).with_name("__pycache__").exists()


def test_a_folder_that_cannot_be_written_to_is_no_fault(module: str, file: Path) -> None:
    Path(module).with_name("__pycache__").write_text("in the way")
    kept = Kept(module, "x", [str(file)])
    kept.write(b"worked out")
    assert kept.read() is None


def test_the_kept_matrix_is_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    path = default_path()
    assert reader._shipped(str(path)) == read_file(path)
    monkeypatch.delattr(reader, "read_file")
    assert reader._shipped(str(path)).row[0].name


def test_what_cannot_be_kept_leaves_nothing_behind(module: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    def replace(*given: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "replace", replace)
    kept = Kept(module, "x", [str(file)])
    kept.write(b"worked out")
    assert kept.read() is None and list(Path(module).with_name("__pycache__").iterdir()) == []
