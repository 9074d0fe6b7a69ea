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
