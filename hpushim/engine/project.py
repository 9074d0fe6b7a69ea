"""The entry for the command line: a whole project analysed, migrated, put back.

::

    report = analyse([Path("src")], Target())                       # what would be found; writes nothing
    report = migrate([Path("src")], Target(), write=False)          # … with before/after of each file (--diff)
    report = migrate([Path("src")], Target())                       # writes, keeps a journal
    undone = undo(Path("src"))                                      # puts back what the last migrate wrote

Reading the report: ``FileResult.status`` is ``changed`` (written, or would be), ``unchanged``, ``skipped``
(left on purpose: generated, vendored, too large … ``reason`` says which) or ``failed`` (could not be
read or parsed, or a rewrite was taken back). ``before`` and ``after`` are the file's bytes: both for
changed files, ``before`` alone where a file has findings and stays as it is. ``Finding.applied`` says that its fix is in ``after``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpushim.engine.files.discover import NONE, Given, project_root
from hpushim.engine.store import state
from hpushim.engine.whole import Whole
from hpushim.matrix import Matrix, load
from hpushim.model import Origin, Page, Report, Target

if TYPE_CHECKING:
    from hpushim.engine.base.accounted import Accounted
    from hpushim.engine.files import journal
    from hpushim.engine.run import Progress


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
    propose: bool = False,
    given: Given = NONE,
    cache: bool = False,
) -> Report:
    """What the rules find under ``paths``; nothing is written, no fix is applied.

    With ``propose`` each file also carries what all its rewrites, unsafe ones too, would make of it, and the report the pages of
    its codes; that takes longer.

    ``select`` and ``ignore`` are codes or prefixes (``HPU1``, ``HPU302``), ``exclude`` gitignore
    patterns. ``matrix`` defaults to the shipped one. ``jobs`` caps the processes; None decides by the
    amount of work. With ``given`` only the files that it names are assessed, by the content that it gives for them; the others under
    ``paths`` say what the project is. With ``cache``, what was found before is kept in the user's cache folder, see :mod:`hpushim.engine.whole`. Where ``paths`` are those very files, they need not exist. Raises :class:`~hpushim.errors.HpushimError` for a path that does not exist.
    """
    matrix = matrix or load()
    paths = paths or (Path(),)
    head = state(matrix) if cache else None
    how = target, select, ignore, propose
    whole = _whole(paths, exclude, how, matrix, head) if head and not given else None
    report = whole.report() if whole else None
    if report is None:
        from hpushim.engine import (
            run as runs,
        )  # imports the rules' words, which a report that is kept needs not

        run = runs.Run(paths, target, matrix, select, ignore, exclude, unsafe=propose, given=given, head=head, whole=whole)  # fmt: skip
        assess = runs.proposed if propose else runs.analysed
        results = run.results(assess, jobs, progress)
        if not given:
            results = run.followed(assess, results)
        report = run.report(run.as_they_are(results))
        if whole:
            whole.keep(report)
    return msgspec.structs.replace(report, pages=_pages(report)) if propose else report


def account(
    paths: Sequence[Path],
    target: Target,
    *,
    matrix: Matrix | None = None,
    exclude: Sequence[str] = (),
    given: Given = NONE,
) -> Iterator[tuple[str, list[Accounted]]]:
    """What becomes of each CUDA token of the Python files under ``paths``, file by file; files that no rule reads are left out."""
    from hpushim.engine.run import Run

    run = Run(paths, target, matrix, exclude=exclude, unsafe=False, given=given)
    yield from run.accounts()


def migrate(
    paths: Sequence[Path],
    target: Target,
    *,
    matrix: Matrix | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
    unsafe: bool | frozenset[Origin] = False,
    write: bool = True,
    allow_dirty: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
    given: Given = NONE,
    shared: bool = True,
) -> Report:
    """Applies the safe fixes (and on request the unsafe ones, or those at some places) to the files under ``paths``.

    With ``write=False`` nothing is touched and the report carries what would be written; content may be ``given`` then, as in
    :func:`analyse`. Unless ``shared``, each file defines what it needs, so that it works without the changes of others. Raises
    :class:`~hpushim.errors.HpushimError`, before anything is written, when a file to be changed has
    uncommitted changes and ``allow_dirty`` is not given.
    """
    assert not (write and given)
    if write:
        from hpushim.engine.files import journal

        journal.tidy(project_root(paths))
    from hpushim.engine.run import Run, migrated

    run = Run(paths, target, matrix, select, ignore, exclude, unsafe=unsafe, given=given)
    results = run.results(migrated, jobs, progress)
    if shared and not given:
        results = run.shared(run.followed(migrated, results))
    results = run.as_they_are(results)
    if write:
        results = run.written(results, allow_dirty=allow_dirty)
    return run.report(results, "migrated" if write else "preview")


def write(report: Report, folder: Path, *, allow_dirty: bool = False) -> Report:
    """Writes into ``folder`` what :func:`migrate` made of a copy of it, byte for byte, and keeps a journal."""
    from hpushim.engine.run import written

    root = project_root((folder,))
    files = [(folder / result.path, result) for result in report.files]
    return msgspec.structs.replace(
        report, files=tuple(written(root, files, allow_dirty)), root=str(folder), stage="migrated"
    )


def undo(path: Path, *, force: bool = False) -> journal.Restored:
    """Puts back every file at or under ``path`` that the last :func:`migrate` changed: bytes, mode, mtime.

    A file that was changed since is refused unless ``force``. The result's ``run`` is empty when there
    is nothing to undo. Several runs are put back one by one, the newest first.
    """
    from hpushim.engine.files import journal

    return journal.undo(path, force=force)


def _whole(
    paths: Sequence[Path], exclude: Sequence[str], how: object, matrix: Matrix, head: bytes
) -> Whole | None:
    """What is kept of folders; None for files, and where the user has no folder for it."""
    with suppress(OSError):
        if all(map(os.path.isdir, paths)):
            return Whole(paths, project_root(paths), exclude, how, matrix, head)
    return None


def _pages(report: Report) -> dict[str, Page]:
    from hpushim.engine.rules.page import declared, explain

    pages: dict[str, Page] = {}
    for number in sorted({finding.code for file in report.files for finding in file.findings}):
        page, code = explain(number), declared(number)
        if page is not None and code is not None:
            pages[number] = Page(page.sections.get("What", ""), page.text, code.severity)
    return pages
