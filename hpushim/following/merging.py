"""One file, merged three ways: what upstream did to CUDA code, and what people did to its migrated form.

Our side was migrated, the common ancestor and theirs are CUDA code; under ``git rebase`` it is the other way round. So each is migrated in
memory, with the same options, which changes nothing in what is migrated already; then the three mention the same code, and only what
people changed on both sides is in conflict::

    base ──────▶ theirs          migrated base ─────▶ migrated theirs
      │ migrate                        │
      ▼                                ▼
    ours          becomes            ours  ─────────▶ the result

A version that cannot be migrated is merged as it is, and that is said.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpushim import quiet_git, safe_files, showing
from hpushim.engine.assess import interesting, own_words
from hpushim.engine.files import kinds
from hpushim.engine.project import migrate
from hpushim.errors import HpushimError
from hpushim.model import Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

#: What git takes for an error of ``git merge-file``; below it, the number of conflicts.
_FAILED = 128


class How(msgspec.Struct, frozen=True):
    """The options that the project is migrated with."""

    target: Target
    matrix: Matrix | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unsafe: bool = False


class Merged(msgspec.Struct, frozen=True):
    """What became of a file."""

    #: The content, with conflict markers where there are conflicts; None where git cannot merge the file, which is binary then.
    data: bytes | None
    conflicts: int
    #: What was not done, and why, half a sentence each.
    notes: tuple[str, ...] = ()


def merge(
    versions: tuple[Path, Path, Path], path: str, top: Path, how: How, marker: int = 7
) -> Merged:
    """Merges base, ours and theirs, which are files of that content, for the file ``path`` of the project in ``top``.

    ``marker`` is the length of conflict markers. Raises HpushimError without git, and
    OSError where a version cannot be read.
    """
    try:
        base, ours, theirs = (safe_files.read(file) for file in versions)
    except safe_files.Refused as error:
        note = f"not migrated before merging: {error.strerror}"
        return _three_ways(versions, marker, (note,))
    notes: list[str] = []
    changed = _migrated((base, ours, theirs), path, top, how, notes)
    with tempfile.TemporaryDirectory(prefix="hpushim-") as folder:
        files = tuple(Path(folder, name) for name in ("base", "ours", "theirs"))
        for file, data in zip(files, changed, strict=True):
            file.write_bytes(data)
        return _three_ways(files, marker, tuple(notes))


def plain(versions: tuple[Path, Path, Path], marker: int, why: str) -> Merged:
    """The same without migrating anything, for the reason given."""
    return _three_ways(versions, marker, (f"not migrated before merging: {why}",))


_NAMES = ("the common ancestor", "our version", "their version")


def _migrated(
    contents: tuple[bytes, bytes, bytes], path: str, top: Path, how: How, notes: list[str]
) -> tuple[bytes, ...]:
    """Base, ours and theirs in migrated form; as it is what cannot be migrated, and all three where that is theirs."""
    own = own_words(how.matrix) if how.matrix is not None else ()
    file = Path(os.path.realpath(top / path))
    after: dict[bytes, bytes] = {}
    for data, name in zip(contents, _NAMES, strict=True):
        kind = kinds.by_name(file) or kinds.by_first_line(data[:128])
        if data in after or kind is None or not interesting(data, kind, path, own):
            continue
        after[data], why = _one(data, file, top, how)
        if why:
            notes.append(f"{name} is merged without migration: {why}")
            if data == contents[2]:
                # Migrated lines would lose against theirs one by one: nothing is migrated then.
                return contents
    return tuple(after.get(data, data) for data in contents)


def _one(data: bytes, file: Path, top: Path, how: How) -> tuple[bytes, str]:
    """The migrated content, and why it is not migrated where it is not; "" too for what ``migrate`` leaves alone."""
    report = migrate(
        (top,),
        how.target,
        matrix=how.matrix,
        select=how.select,
        ignore=how.ignore,
        exclude=how.exclude,
        unsafe=how.unsafe,
        write=False,
        jobs=1,
        given={file: data},
    )
    shown = _shown(file, Path(report.root))
    result = next((one for one in report.files if one.path == shown), None)
    if result is None:
        return data, ""
    if result.status == "failed":
        return data, result.reason or "it cannot be migrated"
    return result.after or data, ""


def _shown(file: Path, root: Path) -> str:
    inside = file.relative_to(root) if file.is_relative_to(root) else file
    return showing.path(inside).replace(os.sep, "/")


def _three_ways(versions: Sequence[Path], marker: int, notes: tuple[str, ...]) -> Merged:
    """``git merge-file``, which reads three files and writes none."""
    git = quiet_git.program()
    if git is None:
        raise HpushimError("git is not on PATH, and hpushim needs it to merge; install it")
    base, ours, theirs = versions
    labels = [word for name in ("ours", "base", "theirs") for word in ("-L", name)]
    files = [os.fspath(file.absolute()) for file in (ours, base, theirs)]
    done = quiet_git.ask(git, "merge-file", "-p", f"--marker-size={marker}", *labels, *files)
    if done.returncode >= _FAILED:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("error: ")[2]
        return Merged(None, 1, (*notes, f"not merged: {said or 'git merge-file failed'}"))
    return Merged(done.stdout, done.returncode, notes)
