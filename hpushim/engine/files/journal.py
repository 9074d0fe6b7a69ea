"""What migrate changed, so that every byte can come back.

    .hpushim/.gitignore             ignores everything below
    .hpushim/runs/<id>/journal      one JSON line per file, written and synced before any file is touched
    .hpushim/runs/<id>/<n>          the bytes of the n-th file as they were

Because originals and journal are on disk first, a run that is cut short at any moment can be undone: a
file that still has its old bytes needs nothing, one that has the new bytes gets the old ones back, and
one that has neither was edited since and is left alone unless that is forced.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hpushim.engine.files import replace
from hpushim.errors import HpushimError

FOLDER = ".hpushim"


class Change(msgspec.Struct, frozen=True):
    """One file to be written."""

    path: Path
    before: bytes
    after: bytes


class Entry(msgspec.Struct, frozen=True):
    """One line of a journal; the path is relative to the journal's root, or absolute outside of it."""

    number: int
    path: str
    mode: int
    mtime_ns: int
    before: str
    after: str


class Restored(msgspec.Struct, frozen=True):
    """What came of putting a run back: paths, and paths refused with the reason."""

    run: str = ""
    restored: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def write(root: Path, changes: Sequence[Change]) -> dict[Path, str]:
    """Writes the changes under a journal in ``root``; returns the files that were not written, and why.

    Raises :class:`HpushimError` when the journal itself cannot be written; then no file was touched.
    """
    failed: dict[Path, str] = {}
    ready: list[Change] = []
    for change in changes:
        why = _unready(change)
        if why is None:
            ready.append(change)
        else:
            failed[change.path] = why
    if not ready:
        return failed
    try:
        _open(root, ready)
    except OSError as error:
        raise HpushimError(
            f"{root / FOLDER}: the journal for --undo cannot be written ({error.strerror}); nothing was changed"
        ) from None
    for change in ready:
        try:
            replace.write(change.path, change.after)
        except OSError as error:
            failed[change.path] = f"cannot be written: {error.strerror}"
    return failed


def _unready(change: Change) -> str | None:
    try:
        why = replace.refusal(change.path)
        if why is None and change.path.read_bytes() != change.before:
            why = "changed on disk while it was being looked at; run again"
    except OSError as error:
        return f"cannot be read again: {error.strerror}"
    return why


def _open(root: Path, changes: Sequence[Change]) -> None:
    home = root / FOLDER
    runs = home / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    run = _fresh(runs)
    lines: list[bytes] = []
    for number, change in enumerate(changes):
        info = change.path.stat()
        _synced(run / str(number), change.before)
        lines.append(
            msgspec.json.encode(
                Entry(
                    number=number,
                    path=_encoded(root, change.path),
                    mode=info.st_mode & 0o7777,
                    mtime_ns=info.st_mtime_ns,
                    before=_digest(change.before),
                    after=_digest(change.after),
                )
            )
        )
    # The journal appears under its name only when it is whole.
    _synced(run / "journal.part", b"\n".join(lines) + b"\n")
    (run / "journal.part").replace(run / "journal")
    _sync_folder(run)


def _fresh(runs: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 0
    while True:
        run = runs / f"{stamp}-{number:03d}"
        try:
            run.mkdir()
        except FileExistsError:
            number += 1
        else:
            return run


def _synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encoded(root: Path, path: Path) -> str:
    """The path as text that survives JSON even when its name is not UTF-8."""
    kept = path.relative_to(root) if path.is_relative_to(root) else path
    return os.fsencode(kept).decode("latin-1")


def _decoded(root: Path, text: str) -> Path:
    return root / os.fsdecode(text.encode("latin-1"))


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# -- back -----------------------------------------------------------------------------------


def undo(path: Path, *, force: bool = False) -> Restored:
    """Puts back what the newest run changed at or under ``path``.

    The journal is looked for in ``path`` and the folders above. An empty result: nothing to undo.
    """
    start = path.resolve()
    for root in (start, *start.parents):
        for run in _runs(root):
            entries = _read(run)
            mine = [e for e in entries if _within(_decoded(root, e.path), start)]
            if mine:
                return _restore(root, run, entries, mine, force)
    return Restored()


def _runs(root: Path) -> list[Path]:
    """The complete journals under ``root``, newest first."""
    try:
        return sorted((p for p in (root / FOLDER / "runs").iterdir()), reverse=True)
    except OSError:
        return []


def _read(run: Path) -> list[Entry]:
    try:
        lines = (run / "journal").read_bytes().splitlines()
    except OSError:
        return []  # cut short before anything was touched
    try:
        return [msgspec.json.decode(line, type=Entry) for line in lines]
    except msgspec.DecodeError as error:
        raise HpushimError(
            f"{run / 'journal'}: not a journal of hpushim ({error}); the originals are beside it, by number"
        ) from None


def _within(path: Path, start: Path) -> bool:
    return path == start or start in path.parents


def _restore(
    root: Path, run: Path, entries: list[Entry], mine: list[Entry], force: bool
) -> Restored:
    restored: list[str] = []
    refused: list[tuple[str, str]] = []
    done: set[int] = set()
    for entry in mine:
        path = _decoded(root, entry.path)
        shown = os.fsencode(path.relative_to(root) if path.is_relative_to(root) else path)
        name = shown.decode("utf-8", "backslashreplace")
        why = _put_back(run, entry, path, force)
        if why is None:
            restored.append(name)
            done.add(entry.number)
        else:
            refused.append((name, why))
    left = [entry for entry in entries if entry.number not in done]
    if not left:
        shutil.rmtree(run, ignore_errors=True)
        _sweep(root / FOLDER)
    elif done:
        lines = b"\n".join(msgspec.json.encode(entry) for entry in left) + b"\n"
        _synced(run / "journal.part", lines)
        (run / "journal.part").replace(run / "journal")
    return Restored(run.name, tuple(restored), tuple(refused))


def _sweep(home: Path) -> None:
    """Takes the journal's folder away when nothing is left in it but what it came with."""
    if {path.name for path in home.iterdir()} <= {".gitignore", "runs"}:
        with suppress(OSError):
            (home / "runs").rmdir()  # fails while there are other runs
            (home / ".gitignore").unlink()
            home.rmdir()


def _put_back(run: Path, entry: Entry, path: Path, force: bool) -> str | None:
    """Restores one file; returns why it was refused."""
    try:
        original = (run / str(entry.number)).read_bytes()
    except OSError as error:
        return f"its original is gone from the journal: {error.strerror}"
    if _digest(original) != entry.before:
        return "its original in the journal is damaged"
    try:
        now = _digest(path.read_bytes())
    except FileNotFoundError:
        if not force:
            return "it was deleted since; --force brings it back"
        now = ""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if now not in (entry.before, entry.after) and not force:
        return "it was edited since; --force puts the original back over the edits"
    try:
        if now != entry.before:
            replace.write(path, original)
        path.chmod(entry.mode)
        os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns))
    except OSError as error:
        return f"cannot be written: {error.strerror}"
    return None
