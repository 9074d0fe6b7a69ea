"""What migrate changed, so that every byte can come back.

Because originals and journal are on disk first (see :mod:`hpushim.engine.files.runs`), a run that is cut short at any
moment can be undone: a file that still has its old bytes needs nothing, one that has the new bytes gets the old ones back,
and one that has neither was edited since and is left alone unless that is forced.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hpushim import safe_files, showing
from hpushim.engine.files import runs
from hpushim.engine.files.runs import FOLDER, Entry, Home
from hpushim.errors import HpushimError
from hpushim.safe_files import CHANGED, Folder, Refused, Torn

__all__ = ["FOLDER", "Change", "Restored", "tidy", "undo", "write"]


class Change(msgspec.Struct, frozen=True):
    """One file to be written."""

    path: Path
    before: bytes
    after: bytes


class Restored(msgspec.Struct, frozen=True):
    """What came of putting a run back: paths as reports carry them, and paths refused with the reason.

    ``unused`` are journals that were found and not used, with the reason.
    """

    run: str = ""
    restored: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    unused: tuple[tuple[str, str], ...] = ()


class _Ready(msgspec.Struct, frozen=True):
    change: Change
    parts: tuple[str, ...]
    info: os.stat_result


def write(root: Path, changes: Sequence[Change]) -> dict[Path, str]:
    """Writes the changes, all below ``root``, under a journal there; returns the files that were not written, and why.

    Raises :class:`HpushimError` when the journal itself cannot be written; then no file was touched.
    """
    failed: dict[Path, str] = {}
    ready: list[_Ready] = []
    with Folder.at(root) as project:
        for change in changes:
            try:
                ready.append(_checked(project, root, change))
            except OSError as error:
                failed[change.path] = _why(error)
    if not ready:
        return failed
    try:
        with runs.opened(root, make=True) as home:
            assert home is not None
            home.tidy()
            _written(home, ready, failed)
    except OSError as error:  # of the journal: those of single files are reported one by one
        raise HpushimError(
            f"{root / FOLDER}: the journal for --undo cannot be written ({error.strerror}); nothing was changed"
        ) from None
    return failed


def _checked(project: Folder, root: Path, change: Change) -> _Ready:
    """Raises OSError for a file that cannot be written, or is not what it was."""
    if not change.path.is_relative_to(root):
        raise Refused("it lies outside of the project")
    parts = runs.place(change.path.relative_to(root).as_posix())
    with project.inner(*parts[:-1]) as folder:
        info = folder.look(parts[-1])
        size = len(change.before)
        if info is None or info.st_size != size or folder.read(parts[-1], size) != change.before:
            raise Refused(CHANGED)
    if not info.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise Refused("read-only; make it writable first")
    return _Ready(change, parts, info)


def _written(home: Home, ready: Sequence[_Ready], failed: dict[Path, str]) -> None:
    """Records the run and writes its files; raises OSError when it cannot be recorded."""
    entries = [_entry(number, item) for number, item in enumerate(ready)]
    try:
        _, run = home.record(
            [
                (entry, item.change.before, item.change.after if entry.in_place else None)
                for entry, item in zip(entries, ready, strict=True)
            ]
        )
    except OSError:
        home.drop_all()
        raise
    torn = False  # then the run is not finished, and the next one heals what it left
    with run:
        for entry, item in zip(entries, ready, strict=True):
            change, name = item.change, item.parts[-1]
            try:
                with home.project.inner(*item.parts[:-1]) as folder:
                    old = change.before
                    folder.write(name, change.after, temporary=entry.temporary, still=old)
            except OSError as error:
                failed[change.path] = _why(error)
                torn = torn or isinstance(error, Torn)
        if not torn:
            with suppress(OSError):
                runs.finish(run)


def _entry(number: int, item: _Ready) -> Entry:
    return Entry(
        number=number,
        path=os.fsencode("/".join(item.parts)).decode("latin-1"),
        mode=stat.S_IMODE(item.info.st_mode),
        mtime_ns=item.info.st_mtime_ns,
        before=runs.digest(item.change.before),
        after=runs.digest(item.change.after),
        temporary=safe_files.temporary(),
        in_place=item.info.st_nlink > 1,
    )


def _why(error: OSError) -> str:
    if isinstance(error, Refused):
        return error.strerror or "refused"
    if isinstance(error, FileNotFoundError):
        return CHANGED
    return f"cannot be written: {error.strerror}"


def tidy(root: Path) -> None:
    """Clears up after runs under ``root`` that were cut short: no temporary file is left, and no torn one."""
    with suppress(OSError), runs.opened(root, make=False) as home:
        if home is not None:
            home.tidy()
            home.drop_all()


# -- back -----------------------------------------------------------------------------------


def undo(path: Path, *, force: bool = False) -> Restored:
    """Puts back what the newest run changed at or under ``path``.

    The journal is looked for in ``path`` and the folders above; one above that another user may have laid out is not
    used. An empty result: nothing to undo. Raises :class:`HpushimError` for a journal that is broken.
    """
    start = Path(os.path.realpath(path))
    unused: list[tuple[str, str]] = []
    for root in (start, *start.parents):
        home = root / FOLDER
        if not os.path.lexists(home):
            continue
        if root != start and (why := runs.whose(root)) is not None:
            unused.append((str(home), why))
            continue
        try:
            done = _undo(root, start, force)
        except OSError as error:
            unused.append((str(home), error.strerror or "it cannot be used"))
            continue
        if done is not None:
            return done
    return Restored(unused=tuple(unused))


def _undo(root: Path, start: Path, force: bool) -> Restored | None:
    """The same for one journal; None when it knows nothing of ``start``."""
    with runs.opened(root, make=False) as home:
        if home is None:
            return None
        home.tidy()
        for name, run in home.newest_first():
            entries = runs.entries(run) or []
            mine = [entry for entry in entries if _within(root, entry, start)]
            if mine:
                return _restored(home, name, run, entries, mine, force)
        home.drop_all()
    return None


def _within(root: Path, entry: Entry, start: Path) -> bool:
    if start == root:
        return True
    try:
        path = root.joinpath(*entry.place())
    except Refused:
        return False
    return path.is_relative_to(start)


def _restored(
    home: Home, name: str, run: Folder, entries: list[Entry], mine: list[Entry], force: bool
) -> Restored:
    runs.reopen(run)  # being cut short here is being cut short
    restored: list[str] = []
    refused: list[tuple[str, str]] = []
    done: set[int] = set()
    torn = False
    for entry in mine:
        shown = showing.path(entry.path.encode("latin-1", "replace"))
        try:
            _put_back(home.project, run, entry, force)
        except Refused as error:
            refused.append((shown, error.strerror or "refused"))
            torn = torn or isinstance(error, Torn)
        except OSError as error:
            refused.append((shown, f"cannot be written: {error.strerror}"))
        else:
            restored.append(shown)
            done.add(entry.number)
    left = [entry for entry in entries if entry.number not in done]
    if left:
        with suppress(OSError):  # where the journal stays as it was, it is still right
            if done:
                runs.keep(run, left)
            if not torn:
                runs.finish(run)
    else:
        with suppress(OSError):
            home.drop(name)
        home.drop_all()
    return Restored(name, tuple(restored), tuple(refused))


def _put_back(project: Folder, run: Folder, entry: Entry, force: bool) -> None:
    """Restores one file; raises OSError with the reason when it is not restored."""
    *folders, name = entry.place()
    try:
        original = run.read(str(entry.number))
    except OSError as error:
        raise Refused(f"its original is missing from the journal: {error.strerror}") from None
    if runs.digest(original) != entry.before:
        raise Refused("its original in the journal is damaged")
    try:
        folder = project.inner(*folders, make=force)
    except FileNotFoundError:
        raise Refused(_DELETED) from None
    with folder:
        if folder.look(name) is None:
            if not force:
                raise Refused(_DELETED)
            now = None
        else:
            now = folder.read(name)
        if now is not None and runs.digest(now) not in (entry.before, entry.after) and not force:
            raise Refused(
                "it was edited after migrate; --force restores the original and drops the edits"
            )
        if now == original:
            folder.mark(name, entry.mode, entry.mtime_ns)
        else:
            folder.write(
                name,
                original,
                temporary=entry.draft(),
                still=now,
                mode=entry.mode,
                time_ns=entry.mtime_ns,
            )


_DELETED = "it was deleted after migrate; --force restores it"
