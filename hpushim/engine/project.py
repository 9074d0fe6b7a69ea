"""The entry for the command line: a whole project analysed, migrated, put back.

::

    report = analyse([Path("src")], Target())                       # what would be found; writes nothing
    report = migrate([Path("src")], Target(), write=False)          # … with before/after of each file (--diff)
    report = migrate([Path("src")], Target())                       # writes, keeps a journal
    undone = undo(Path("src"))                                      # puts back what the last migrate wrote

Reading the report: ``FileResult.status`` is ``changed`` (written, or would be), ``unchanged``, ``skipped``
(left on purpose: generated, vendored, too large … ``reason`` says which) or ``failed`` (could not be
read or parsed, or a rewrite was taken back). ``before`` and ``after`` are the file's bytes and are set
only for changed files. ``Finding.applied`` says that its fix is in ``after``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpushim.model import Report, Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

#: Called after each file with how many are done, how many there are, and the path.
Progress = Callable[[int, int, str], None]


class Undone(msgspec.Struct, frozen=True):
    """What :func:`undo` did: paths restored, and paths refused with the reason."""

    run: str
    restored: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()


def analyse(
    paths: Sequence[Path],
    target: Target,
    *,
    matrix: Matrix | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """What the rules find under ``paths``; nothing is written, no fix is applied.

    ``select`` and ``ignore`` are codes or prefixes (``HPU1``, ``HPU302``), ``exclude`` gitignore
    patterns. ``matrix`` defaults to the shipped one. ``jobs`` caps the processes; None decides by the
    amount of work. Raises :class:`~hpushim.errors.HpushimError` for a path that does not exist.
    """
    raise NotImplementedError


def migrate(
    paths: Sequence[Path],
    target: Target,
    *,
    matrix: Matrix | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
    unsafe: bool = False,
    write: bool = True,
    allow_dirty: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Applies the safe fixes (and the unsafe ones on request) to the files under ``paths``.

    With ``write=False`` nothing is touched and the report carries what would be written. Raises
    :class:`~hpushim.errors.HpushimError`, before anything is written, when a file to be changed has
    uncommitted changes and ``allow_dirty`` is not given.
    """
    raise NotImplementedError


def undo(path: Path, *, force: bool = False) -> Undone:
    """Puts back every file at or under ``path`` that the last :func:`migrate` changed: bytes, mode, mtime.

    A file that was changed since is refused unless ``force``. Raises
    :class:`~hpushim.errors.HpushimError` when there is nothing to undo.
    """
    raise NotImplementedError
