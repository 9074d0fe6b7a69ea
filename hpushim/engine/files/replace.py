"""Writing one file so that at every moment either the old or the new bytes are there."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def refusal(path: Path) -> str | None:
    """Why a file must not be written: its owner made it read-only. None when it may be."""
    if not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        return "read-only; make it writable first"
    return None


def write(path: Path, data: bytes) -> None:
    """Replaces the content of ``path``, a real file; mode, owner and extended attributes stay.

    The new bytes go to a temporary file in the same folder that takes the old one's place. A file with
    several hard links is written in place instead, so that all its names show the new content.
    Raises OSError, with the file as it was.
    """
    info = path.stat()
    if info.st_nlink > 1:
        _in_place(path, data)
        return
    descriptor, name = tempfile.mkstemp(
        prefix=f".{path.name[:32]}.", suffix=".tmp", dir=path.parent
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        shutil.copystat(path, name)
        os.utime(name)
        with suppress(OSError, AttributeError):
            os.chown(name, info.st_uid, info.st_gid)
            Path(name).chmod(stat.S_IMODE(info.st_mode))  # chown clears the set-id bits
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _in_place(path: Path, data: bytes) -> None:
    old = path.read_bytes()
    with path.open("r+b") as file:
        try:
            file.write(data)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            file.seek(0)
            file.write(old)
            file.truncate()
            raise
