"""What takes the place of a ledger's file between a look at it and its opening is neither read, nor written, nor replaced."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpushim.emulator import ledger_file


def _link(path: Path) -> None:
    path.with_name("target").write_text('{"complete": true}')
    path.symlink_to("target")


def _dangling_link(path: Path) -> None:
    path.symlink_to("nothing")


PLACED = [Path.mkdir, _link, _dangling_link, os.mkfifo]


@pytest.mark.parametrize("make", PLACED)
@pytest.mark.parametrize("way", ["taken", "asked"])
def test_what_takes_its_place_after_the_look_is_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Any], way: str) -> None:  # fmt: skip
    path, really = tmp_path / "ledger.json", os.open
    made: list[int] = []
    path.write_text('{"complete": true}')
    assert ledger_file._is_complete(path)

    def swapped(*args: Any, **kwargs: Any) -> int:
        path.unlink()
        make(path)
        made.append(really(*args, **kwargs))
        return made[-1]

    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        monkeypatch.setattr(os, "open", swapped)
        if way == "asked":
            assert ledger_file._is_complete(path) is False
        else:
            with pytest.raises(OSError, match=r"not a regular file" if make is os.mkfifo else r"."):
                ledger_file._locked(path.name, folder)
    finally:
        os.close(folder)
    for descriptor in made:
        with pytest.raises(OSError, match=r"."):
            os.fstat(descriptor)


@pytest.mark.parametrize("make", PLACED)
def test_what_takes_its_place_while_books_are_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Any]) -> None:  # fmt: skip
    path, really = tmp_path / "ledger.json", os.fdopen
    monkeypatch.setattr(
        os, "fdopen", lambda *args, **kwargs: (make(path), really(*args, **kwargs))[1]
    )
    with pytest.raises(ledger_file._MustNot, match="which hpushim never replaces"):
        ledger_file.write(path, "{}")
    assert (path.lstat().st_mode and not path.is_file()) or path.is_symlink()
    assert not list(tmp_path.glob("*.tmp"))


BOOKS = '{"complete": true, "operators": 12345}' + " " * 400


@pytest.mark.parametrize("first", ["books", "head", "nothing", "other", "held"])
@pytest.mark.parametrize("part", ["", ".rank1"])
@pytest.mark.parametrize("quiet", [True, False])
def test_what_earlier_runs_left_is_kept_where_it_is_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], first: str, part: str, quiet: bool) -> None:  # fmt: skip
    monkeypatch.setenv("HPUSHIM_LOG", " Quiet" if quiet else "")
    monkeypatch.setattr(ledger_file, "_taken", taken := [])  # type: ignore[var-annotated]
    path = tmp_path / "l.json"
    texts = {"books": BOOKS, "head": ledger_file._NOT_YET, "held": BOOKS, "other": "mine"}
    if first in texts:
        (tmp_path / f"l.json{part}").write_text(texts[first])
    (tmp_path / "l.1.json").write_text("an older one")
    parts = {"l.json.rank2": BOOKS, "l.json.rank3": ledger_file._NOT_YET, "l.json.pid7": BOOKS, "l.json.rank2.pid9": "{}", "l.json.77.tmp": "{}"}  # fmt: skip
    others = {"l.json.rankx": "x", "al.json.rank2": "x", "l.json.rank4.more": "x"}
    for name, text in {**parts, **others}.items():
        (tmp_path / name).write_text(text)
    busy = os.open(tmp_path / f"l.json{part}", os.O_RDWR) if first == "held" else None
    rank = os.open(tmp_path / "l.json.rank3", os.O_RDWR)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert ledger_file._lock(rank) and (busy is None or ledger_file._lock(busy))
        if first == "other":
            with pytest.raises(ledger_file._MustNot, match=r"^there is a file that is not a ledger$"):  # fmt: skip
                ledger_file._take(path, part, folder)
            assert (tmp_path / f"l.json{part}").read_text() == "mine" and not taken
            return
        found = ledger_file._take(path, part, folder)
        assert found == (tmp_path / f"l.json.run{os.getpid()}" if busy else path)
        assert (tmp_path / f"{found.name}{part}").read_text() == ledger_file._NOT_YET
        assert ledger_file._locked(f"{found.name}{part}", folder) is None  # this process has it
        names = {file.name for file in tmp_path.iterdir()}
        assert names >= {*others, "l.1.json", "l.json.rank3"}
        number = 1 if part else 2
        kept = first == "books"
        assert (f"l.{number}.json{part}" in names) is kept
        moved = not part and busy is None
        for name, text in parts.items():
            if name != "l.json.rank3":
                assert (name in names) is not moved
                assert (name.replace("l.json", "l.2.json") in names) is (moved and text == BOOKS)
        said = capsys.readouterr().err
        assert ("another run is still writing" in said) is bool(busy)
        told = f"hpushim: the ledger of an earlier run in {path} is kept as l.2.json\n"
        assert said.endswith(told) is (moved and not quiet)
    finally:
        for descriptor in (folder, rank, *taken, *([busy] if busy else [])):
            os.close(descriptor)


@pytest.mark.parametrize("name", ["l.json.rank2", "l.json.pid7", ""])
@pytest.mark.parametrize("books", [True, False])
def test_only_books_that_are_moved_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, books: bool) -> None:  # fmt: skip
    monkeypatch.delenv("HPUSHIM_LOG", raising=False)
    monkeypatch.setattr(ledger_file, "_taken", taken := [])  # type: ignore[var-annotated]
    if name:
        (tmp_path / name).write_text(BOOKS if books else ledger_file._NOT_YET)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        ledger_file._take(tmp_path / "l.json", "", folder)
        told = "the ledger of an earlier run" in capsys.readouterr().err
        assert told is bool(name and books)
        kept = name.replace("l.json", "l.1.json") if told else "l.json"
        assert {file.name for file in tmp_path.iterdir()} == {"l.json", kept}
    finally:
        for descriptor in (folder, *taken):
            os.close(descriptor)
