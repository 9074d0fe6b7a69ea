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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from hpushim import showing
from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.cache import Asked, Cache, Entry
from hpushim.engine.context import Context, Unparsable
from hpushim.engine.facts import Facts
from hpushim.engine.files import pool
from hpushim.engine.files.discover import (
    File,
    Found,
    Passed,
    discover,
    left_out,
    named,
    project_root,
    written_here,
)
from hpushim.engine.files.source import Source, Unreadable, decode, read, rewritten
from hpushim.engine.judge import accounted, interesting, own_words, parse, wanted_kinds
from hpushim.engine.one_file import examine, settle
from hpushim.engine.rules.registry import every_rule, porting
from hpushim.engine.rules.wants import TAKE_DEVICES
from hpushim.engine.uses import Uses
from hpushim.errors import HpushimError
from hpushim.model import (
    Basis,
    Edit,
    FileResult,
    Finding,
    Kernels,
    Origin,
    Page,
    Report,
    Stage,
    Target,
)
from hpushim.patterns import lazily
from hpushim.pycode.steps import TooManySteps

if TYPE_CHECKING:
    from hpushim.engine.base.accounted import Accounted
    from hpushim.engine.files import journal
    from hpushim.matrix import Matrix

#: Called after each file with how many are done, how many there are, and the path.
Progress = Callable[[int, int, str], None]
#: Content that represents that of a file, by the file's real path.
Given = Mapping[Path, bytes]
_NONE: Given = MappingProxyType({})
#: What a notebook shows: megabytes of words that say nothing.
_PICTURE = lazily(rb'"image/[\w.+-]+":\s*(?:"[^"]*"|\[[^\]]*\])')
#: Among so many files that hold a rule's word every rule will be wanted.
_MANY = 50


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
    given: Given = _NONE,
    cache: bool = False,
) -> Report:
    """What the rules find under ``paths``; nothing is written, no fix is applied.

    With ``propose`` each file also carries what all its rewrites, unsafe ones too, would make of it, and the report the pages of
    its codes; that takes longer.

    ``select`` and ``ignore`` are codes or prefixes (``HPU1``, ``HPU302``), ``exclude`` gitignore
    patterns. ``matrix`` defaults to the shipped one. ``jobs`` caps the processes; None decides by the
    amount of work. With ``given`` only the files that it names are assessed, by the content that it gives for them; the others under
    ``paths`` say what the project is. With ``cache``, what was found before is kept in the user's cache folder, see :mod:`hpushim.engine.cache`. Where ``paths`` are those very files, they need not exist. Raises :class:`~hpushim.errors.HpushimError` for a path that does not exist.
    """
    run = _Run(
        paths, target, matrix, select, ignore, exclude, unsafe=propose, given=given, cached=cache
    )
    results = run.results(_proposed if propose else _analysed, jobs, progress)
    report = run.report(run.as_they_are(results))
    return msgspec.structs.replace(report, pages=_pages(report)) if propose else report


def account(
    paths: Sequence[Path],
    target: Target,
    *,
    matrix: Matrix | None = None,
    exclude: Sequence[str] = (),
    given: Given = _NONE,
) -> Iterator[tuple[str, list[Accounted]]]:
    """What becomes of each CUDA token of the Python files under ``paths``, file by file; files that no rule reads are left out."""
    run = _Run(paths, target, matrix, (), (), exclude, unsafe=False, given=given)
    for file, data in zip(run.found.files, run.data, strict=True):
        if file.kind == "python" and isinstance(data, bytes) and not left_out(file, data):
            try:
                text = decode(data, python=True).text
                yield file.shown, accounted(parse(text, file.shown, run.context))
            except (Unreadable, Unparsable, TooManySteps):
                continue  # `check` without the option names them


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
    given: Given = _NONE,
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
    run = _Run(paths, target, matrix, select, ignore, exclude, unsafe=unsafe, given=given)
    results = run.results(_migrated, jobs, progress)
    if shared and not given:
        results = run.shared(results)
    results = run.as_they_are(results)
    if write:
        results = run.written(results, allow_dirty=allow_dirty)
    return run.report(results, "migrated" if write else "preview")


def write(report: Report, folder: Path, *, allow_dirty: bool = False) -> Report:
    """Writes into ``folder`` what :func:`migrate` made of a copy of it, byte for byte, and keeps a journal."""
    root = project_root((folder,))
    files = [(folder / result.path, result) for result in report.files]
    return msgspec.structs.replace(
        report, files=tuple(_written(root, files, allow_dirty)), root=str(folder), stage="migrated"
    )


def undo(path: Path, *, force: bool = False) -> journal.Restored:
    """Puts back every file at or under ``path`` that the last :func:`migrate` changed: bytes, mode, mtime.

    A file that was changed since is refused unless ``force``. The result's ``run`` is empty when there
    is nothing to undo. Several runs are put back one by one, the newest first.
    """
    from hpushim.engine.files import journal

    return journal.undo(path, force=force)


def _pages(report: Report) -> dict[str, Page]:
    from hpushim.engine.rules.page import declared, explain

    pages: dict[str, Page] = {}
    for number in sorted({finding.code for file in report.files for finding in file.findings}):
        page, code = explain(number), declared(number)
        if page is not None and code is not None:
            pages[number] = Page(page.sections.get("What", ""), page.text, code.severity)
    return pages


class _Run:
    """One call of :func:`analyse` or :func:`migrate`."""

    def __init__(
        self,
        paths: Sequence[Path],
        target: Target,
        matrix: Matrix | None,
        select: Sequence[str],
        ignore: Sequence[str],
        exclude: Sequence[str],
        *,
        unsafe: bool | frozenset[Origin],
        given: Given = _NONE,
        cached: bool = False,
    ) -> None:
        if matrix is None:
            from hpushim.matrix import load

            matrix = load()
        self.matrix = matrix
        paths = paths or (Path(),)
        self.root = project_root(paths)
        self.found: Found = (
            named(given, self.root)
            if given and set(paths) == set(given)
            else discover(paths, self.root, wanted_kinds(), exclude)
        )
        self.style = target.style
        #: Of each file that was ported: its bytes, and what rules see.
        self.ports: dict[str, tuple[bytes, bytes]] = {}
        #: The bytes of the files that a rule may want, why a file has none, None for the others.
        self.data: list[bytes | str | None] = []
        self.python_lines = 0
        self.kernels = tuple(filter(None, map(_counted, self.found.kernels)))
        self.cache = self._opened(target, select, ignore, unsafe) if cached else None
        self.facts = facts = Facts()
        own = own_words(matrix)
        for file in self.found.files:
            data = self._read(file, given[file.path] if file.path in given else read(file.path))
            wanted = True
            if isinstance(data, bytes):
                entry = self._seen(file, data, facts, own)
                facts.add(file, entry.said)
                wanted = entry.wanted
                if file.kind == "python":
                    self.python_lines += data.count(b"\n")
            if given and file.path not in given:
                wanted = False
            self.data.append(data if wanted else None)
        self.other_framework = facts.other_framework
        self.needed = facts.needed
        project = facts.project(self.root, self.found.files)
        self.device_options = tuple(sorted(project.names(TAKE_DEVICES)))
        self.context = Context(
            target=target,
            matrix=matrix,
            project=self.cache.watch(project) if self.cache else project,
            select=tuple(select),
            ignore=tuple(ignore),
            unsafe=unsafe,
        )

    def _read(self, file: File, data: bytes | str) -> bytes | str:
        """The bytes of a file as rules see them; in the agnostic style those of a port are the code before it."""
        if self.style != "agnostic" or not isinstance(data, bytes):
            return data
        seen: bytes = porting().before(data, python=file.kind in ("python", "notebook"))
        if seen != data:
            self.ports[file.shown] = data, seen
        return seen

    def as_they_are(self, results: list[FileResult]) -> list[FileResult]:
        """The results in the words of the files, which rules may have seen in others."""
        return list(map(self._of_port, results)) if self.ports else results

    def _of_port(self, result: FileResult) -> FileResult:
        """A result in the words of the file as it is."""
        if result.path not in self.ports:
            return result
        (port, seen), said = self.ports[result.path], porting()
        findings = tuple(
            msgspec.structs.replace(each, message=said.worded(each.message.encode()).decode())
            for each in result.findings
        )
        after = result.after and said.back(port, seen, result.after)
        before = result.before and port
        return msgspec.structs.replace(result, findings=findings, before=before, after=after)

    def _opened(self, *options: object) -> Cache | None:
        """What was found before; None where the user has no folder for it."""
        with suppress(OSError):
            return Cache(self.root, options, self.matrix)
        return None

    def _seen(self, file: File, data: bytes, facts: Facts, own: Sequence[str]) -> Entry:
        """What a file says of its project, and whether a rule may want it."""
        key = self.cache.key(file, data) if self.cache else b""
        entry = self.cache.entry(key) if self.cache else None
        if entry is None:
            text = _PICTURE.sub(b"", data) if file.kind == "notebook" else data
            said = facts.said(file, text)
            entry = Entry(said, interesting(text, file.kind, file.shown, own))
            if self.cache:
                self.cache.add(key, entry)
        return entry

    def results(
        self,
        judge: Callable[[File, Source, Context], FileResult],
        jobs: int | None,
        progress: Progress | None,
    ) -> list[FileResult]:
        """One result per file; only files with a marker are decoded and parsed."""
        done: dict[int, FileResult] = {}
        work: list[tuple[int, File, bytes]] = []
        for index, file in enumerate(self.found.files):
            data = self.data[index]
            if isinstance(data, str):
                done[index] = _failed(file, data, "HPU002")
            elif data is None:
                done[index] = FileResult(file.shown, "unchanged")
            elif (known := self._known(file, data)) is not None:
                done[index] = known
            else:
                work.append((index, file, data))
        total = len(self.found.files)
        count = len(done)
        sizes = [len(data) for _, _, data in work]
        if len(work) > _MANY:
            every_rule()  # loaded before processes are forked, which have them then
        one = partial(_one, judge=judge, context=self.context, cache=self.cache)
        # Closed at once where somebody stops in the middle: its children must not go on.
        with closing(pool.each(one, work, sizes, jobs, _lost)) as results:
            for number, (result, asked) in results:
                index, file, data = work[number]
                done[index] = result
                if self.cache:
                    self.cache.put(self.cache.key(file, data), result, asked)
                count += 1
                if progress is not None:
                    progress(count, total, file.shown)
        if self.cache:
            self.cache.write()
        return [*(done[i] for i in range(total)), *map(_passed, self.found.passed)]

    def shared(self, results: list[FileResult]) -> list[FileResult]:
        """The results where one file defines what several come to need, and these import it."""
        files = self.found.files
        users = [f.shown for f, result in zip(files, results, strict=False) if f.kind == "python" and _defines(result)]  # fmt: skip
        if not users or self.context.target.style != "agnostic":
            return results
        texts = {f.shown: data for f in files if isinstance(data := self._read(f, read(f.path)), bytes)}  # fmt: skip
        homes = self.facts.homes(texts, users)
        project = msgspec.structs.replace(self.context.project, homes=tuple(homes.items()))
        context = msgspec.structs.replace(self.context, project=project)
        return [
            _judged((0, file, texts[file.shown]), _migrated, context) if file.shown in homes else result
            for file, result in zip(files, results, strict=False)
        ] + results[len(files) :]  # fmt: skip

    def _known(self, file: File, data: bytes) -> FileResult | None:
        return self.cache.find(self.cache.key(file, data), data) if self.cache else None

    def written(self, results: list[FileResult], *, allow_dirty: bool) -> list[FileResult]:
        """Writes what changed; a file that could not be written is failed."""
        # By their place in the list, not by the path that is shown.
        paths = [file.path for file in self.found.files]
        pairs = list(zip(paths, results, strict=False))
        return _written(self.root, pairs, allow_dirty) + results[len(pairs) :]

    def _unused(self, results: Iterable[FileResult]) -> frozenset[str]:
        """The functions, classes and methods with stops left to a person that the project offers at most: no code that a run may need uses them."""
        asked = {
            (result.path, ".".join(finding.function.split(".")[:depth]))
            for result in results
            for depth in (1, 2)
            for finding in result.findings
            if finding.function and not finding.fix
            if finding.severity in ("error", "unknown") or finding.effect == "cpu"
        }
        if not asked:
            return frozenset()
        around = self.needed.around
        code = (f for f in self.found.files if f.kind != "markdown" and f.shown not in around)
        uses = Uses((f.shown, data) for f in code if isinstance(data := read(f.path), bytes))
        return frozenset(f"{path}:{name}" for path, name in asked if uses.offered(path, name))

    def report(self, results: Iterable[FileResult], stage: Stage = "before") -> Report:
        """The results in path order."""
        from hpushim import __version__

        results = sorted(results, key=lambda result: result.path)
        matrix = self.context.matrix
        named = {f.row for result in results for f in result.findings if f.row}
        known = {name: row for name in sorted(named) if (row := matrix.row(name))}
        return Report(
            tool=f"hpushim {__version__}",
            target=self.context.target,
            files=tuple(results),
            root=str(self.root),
            unknown=frozenset(name for name, row in known.items() if row.status == "unknown"),
            stage=stage,
            matrix=matrix.edition,
            rows={
                name: Basis(row.status, row.confidence, row.note, row.effort, row.effect)
                for name, row in known.items()
            },
            kernels=self.kernels,
            python_lines=self.python_lines,
            other_framework=self.other_framework,
            around=self.needed.around,
            program=self.needed.program,
            reached=self.needed.reached,
            chosen=self.needed.chosen,
            unused=self._unused(results),
            device_options=self.device_options,
        )


def _defines(result: FileResult) -> bool:
    """Did the file get a definition that others may need as well?"""
    return any(finding.applied and finding.code == "HPU023" for finding in result.findings)


def _counted(item: tuple[Path, str]) -> Kernels | None:
    """With the lines that people wrote; None where Cython made all of it."""
    path, shown = item
    data = read(path)
    if not isinstance(data, bytes):
        return Kernels(shown, 0)
    written, made, _ = data.partition(b"/* Generated by Cython")
    return None if made and not written.strip() else Kernels(shown, written.count(b"\n"))


def _one(
    item: tuple[int, File, bytes],
    *,
    judge: Callable[[File, Source, Context], FileResult],
    context: Context,
    cache: Cache | None,
) -> tuple[FileResult, Asked]:
    """The result for a file, with what was requested from the project for it."""
    if cache is None:
        return _judged(item, judge, context), []
    cache.begin()
    return _judged(item, judge, context), cache.asked()


def _judged(
    item: tuple[int, File, bytes],
    judge: Callable[[File, Source, Context], FileResult],
    context: Context,
) -> FileResult:
    _, file, data = item
    if written_here(file, data):
        return FileResult(file.shown, "skipped", "a report or a baseline of hpushim")
    why = left_out(file, data)
    if why is not None:
        return _passed(Passed(file.shown, why))
    try:
        source = decode(data, python=file.kind == "python")
        return judge(file, source, context)
    except Unreadable as error:
        return _failed(file, str(error), "HPU002")
    except Unparsable as error:
        return FileResult(file.shown, "failed", error.finding.message, (error.finding,))
    except TooManySteps as error:
        return _failed(file, f"{error}; not changed", "HPU002")
    except Exception as error:
        why = (
            f"internal error ({error.__class__.__name__}: {error}); the file is not changed; "
            "please report it"
        )
        return _failed(file, why, "HPU004")


def _lost(item: tuple[int, File, bytes], why: str) -> tuple[FileResult, Asked]:
    return _failed(item[1], why, "HPU002"), []


def _analysed(file: File, source: Source, context: Context) -> FileResult:
    found = examine(source.text, file.kind, file.shown, context, source.canonical)
    return _unchanged(file, source, found)


def _proposed(file: File, source: Source, context: Context) -> FileResult:
    """The same, with what would become of the file."""
    found = _analysed(file, source, context)
    if not any(finding.fix is not None for finding in found.findings):
        return found
    return msgspec.structs.replace(found, proposed=_migrated(file, source, context).after)


def _unchanged(file: File, source: Source, findings: tuple[Finding, ...]) -> FileResult:
    """A file left as it is; with its bytes where there is something to point at."""
    before = source.data if findings else None
    return FileResult(file.shown, "unchanged", findings=findings, before=before)


def _migrated(file: File, source: Source, context: Context) -> FileResult:
    settled = settle(source.text, file.kind, file.shown, context)
    current = source
    for edits in settled.steps:
        current = _stepped(current, edits, python=file.kind == "python")
    if current.data == source.data:
        return _unchanged(file, source, settled.findings)
    return FileResult(
        file.shown,
        "changed",
        findings=settled.findings,
        before=source.data,
        after=current.data,
    )


def _stepped(source: Source, edits: tuple[Edit, ...], *, python: bool) -> Source:
    data = rewritten(source, edits)
    after = decode(data, python=python)
    if (after.encoding, after.bom) != (source.encoding, source.bom):
        raise Unreadable(
            f"the rewrite would change its encoding from {source.encoding} to {after.encoding}"
        )
    return after


def _failed(file: File, why: str, code: str) -> FileResult:
    finding: Finding = diagnostic(code, f"`{file.shown}` {why}")
    return FileResult(file.shown, "failed", why, (finding,))


def _passed(item: Passed) -> FileResult:
    code = "HPU002" if item.failed else "HPU003"
    finding = diagnostic(code, f"`{item.shown}` is not checked: {item.reason}")
    return FileResult(item.shown, "failed" if item.failed else "skipped", item.reason, (finding,))


def _written(
    root: Path, files: Sequence[tuple[Path, FileResult]], allow_dirty: bool
) -> list[FileResult]:
    from hpushim.engine.files import journal

    changes = [
        journal.Change(path, result.before, result.after)
        for path, result in files
        if result.before is not None and result.after is not None
    ]
    if not allow_dirty:
        _refuse_dirty(root, [change.path for change in changes])
    failed = journal.write(root, changes)
    return [_unwritten(result, failed.get(path)) for path, result in files]


def _unwritten(result: FileResult, why: str | None) -> FileResult:
    if why is None:
        return result
    findings = tuple(msgspec.structs.replace(f, applied=False) for f in result.findings)
    return FileResult(result.path, "failed", why, findings)


def _refuse_dirty(root: Path, paths: list[Path]) -> None:
    from hpushim.engine.files.git import uncommitted

    dirty = uncommitted(paths)
    if not dirty:
        return
    shown = [
        showing.quoted(showing.path(p.relative_to(root) if p.is_relative_to(root) else p))
        for p in dirty
    ]
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    raise HpushimError(
        f"files to be rewritten have uncommitted changes: {', '.join(shown[:5])}{more}; "
        "commit or stash them, or use --allow-dirty; nothing was changed"
    )
