"""One look at a project: what its files say of each other, then what the rules find in each."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import msgspec

from hpushim import showing
from hpushim.engine.around import NAMED
from hpushim.engine.assess import accounted, interesting, own_words, parse, wanted_kinds
from hpushim.engine.base.accounted import Accounted
from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.cache import Cache, Entry, Questions
from hpushim.engine.context import Context, Unparsable
from hpushim.engine.facts import Facts
from hpushim.engine.files import pool
from hpushim.engine.files.discover import (
    NONE,
    File,
    Found,
    Given,
    Passed,
    discover,
    left_out,
    named,
    project_root,
    written_here,
)
from hpushim.engine.files.source import Source, Unreadable, decode, read, rewritten
from hpushim.engine.one_file import examine, settle
from hpushim.engine.rules.registry import every_rule, porting, sharing
from hpushim.engine.rules.wants import OFF, TAKE_DEVICES
from hpushim.engine.uses import Uses
from hpushim.engine.whole import Whole, counted, key
from hpushim.errors import HpushimError
from hpushim.matrix import Matrix, load
from hpushim.model import Basis, Edit, FileResult, Finding, Origin, Report, Stage, Target
from hpushim.patterns import lazily
from hpushim.pycode.steps import TooManySteps

#: Called after each file with how many are done, how many there are, and the path.
Progress = Callable[[int, int, str], None]
#: Assesses one file.
Assess = Callable[[File, Source, Context], FileResult]
#: What a notebook shows: megabytes of words that say nothing.
_PICTURE = lazily(rb'"image/[\w.+-]+":\s*(?:"[^"]*"|\[[^\]]*\])')
#: Among so many files that hold a rule's word every rule will be wanted.
_MANY = 50


class Run:
    """One look at a project, or one migration of it."""

    def __init__(
        self,
        paths: Sequence[Path],
        target: Target,
        matrix: Matrix | None,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        unsafe: bool | frozenset[Origin],
        given: Given = NONE,
        head: bytes | None = None,
        whole: Whole | None = None,
    ) -> None:
        """With ``head``, the state of hpushim, what was found before is used; ``whole`` keeps all that is found."""
        self.matrix = matrix = matrix or load()
        paths = paths or (Path(),)
        self.root = project_root(paths)
        self.whole = whole
        self.found: Found = (
            named(given, self.root)
            if given and set(paths) == set(given)
            else whole.found
            if whole
            else discover(paths, self.root, wanted_kinds(), exclude)
        )
        self.style = target.style
        #: Of each file that was ported: its bytes, and what rules see.
        self.ports: dict[str, tuple[bytes, bytes]] = {}
        #: The bytes of the files that a rule may want, why a file has none, None for the others.
        self.data: list[bytes | str | None] = []
        self.python_lines = 0
        self.kernels = counted(self.found.kernels)
        self.cache = self._opened(head, target, select, ignore, unsafe) if head else None
        #: The key of each file in the cache.
        self.keys: list[bytes] = []
        self.facts = facts = Facts()
        own = own_words(matrix)
        for file in self.found.files:
            raw = given[file.path] if file.path in given else read(file.path)
            data = self._read(file, raw)
            wanted = True
            self.keys.append(key(file, data) if self.cache and isinstance(data, bytes) else b"")
            if whole and isinstance(raw, bytes):
                whole.seen.append(self.keys[-1] if data is raw else key(file, raw))
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

    def _opened(self, head: bytes, *options: object) -> Cache | None:
        """What was found before; None where the user has no folder for it."""
        with suppress(OSError):
            return Cache(self.root, options, self.matrix, head)
        return None

    def _seen(self, file: File, data: bytes, facts: Facts, own: Sequence[str]) -> Entry:
        """What a file says of its project, and whether a rule may want it."""
        entry = self.cache.entry(self.keys[-1]) if self.cache else None
        if entry is None:
            text = _PICTURE.sub(b"", data) if file.kind == "notebook" else data
            said = facts.said(file, text)
            entry = Entry(said, interesting(text, file.kind, file.shown, own))
            if self.cache:
                self.cache.add(self.keys[-1], entry)
        return entry

    def accounts(self) -> Iterator[tuple[str, list[Accounted]]]:
        """What becomes of each CUDA token of the Python files, file by file; those that no rule reads are left out."""
        for file, data in zip(self.found.files, self.data, strict=True):
            if file.kind == "python" and isinstance(data, bytes) and not left_out(file, data):
                try:
                    text = decode(data, python=True).text
                    yield file.shown, accounted(parse(text, file.shown, self.context))
                except (Unreadable, Unparsable, TooManySteps):
                    continue  # `check` without the option names them

    def results(
        self,
        assess: Assess,
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
            elif self.cache and (known := self.cache.find(self.keys[index], data)) is not None:
                done[index] = known
            else:
                work.append((index, file, data))
        total = len(self.found.files)
        count = len(done)
        sizes = [len(data) for _, _, data in work]
        if len(work) > _MANY:
            every_rule()  # loaded before processes are forked, which have them then
        one = partial(_one, assess=assess, context=self.context, cache=self.cache)
        # Closed at once where somebody stops in the middle: its children must not go on.
        with closing(pool.each(one, work, sizes, jobs, _lost)) as results:
            for number, (result, questions) in results:
                index, file, _ = work[number]
                done[index] = result
                if self.cache:
                    self.cache.put(self.keys[index], result, questions)
                count += 1
                if progress is not None:
                    progress(count, total, file.shown)
        if self.cache:
            self.cache.write()
        return [*(done[i] for i in range(total)), *map(_passed, self.found.passed)]

    def shared(self, results: list[FileResult]) -> list[FileResult]:
        """The results where one file defines what several come to need, and these import it."""
        if self.style != "agnostic":
            return results
        files = self.found.files
        changed = {f.shown: result for f, result in zip(files, results, strict=False) if f.kind == "python" and result.after}  # fmt: skip
        needs = {path: sharing()(result.after or b"") for path, result in changed.items()}
        users = {path: names for path, names in needs.items() if _defines(changed[path])}
        others = [path for path, names in needs.items() if names and path not in users]
        if not (users or others):
            return results
        texts = {f.shown: data for f in files if isinstance(data := self._read(f, read(f.path)), bytes)}  # fmt: skip
        homes = self.facts.homes(texts, users, others)
        return self._again(migrated, results, {path for path, _ in homes}, homes=tuple(homes.items()))  # fmt: skip

    def followed(self, assess: Assess, results: list[FileResult]) -> list[FileResult]:
        """The results where a file stays that programs need only through one which stays."""
        if self.style != "agnostic":
            return results
        changed = {
            result.path
            for file, result in zip(self.found.files, results, strict=False)
            if file.kind == "python"
            if result.after or any(f.fix and f.fix.safety == "safe" for f in result.findings)
        }
        # Without the files of tests and tools.
        staying = {
            result.path
            for result in results
            if result.path not in changed and not NAMED.search(result.path)
            if any(finding.held and finding.severity == "error" for finding in result.findings)
        }
        leads = self.facts.leads(staying, changed) if staying and changed else {}
        return self._again(assess, results, leads, leads=tuple(leads.items()))

    def _again(
        self,
        assess: Assess,
        results: list[FileResult],
        paths: Container[str],
        **known: tuple[tuple[object, str], ...],
    ) -> list[FileResult]:
        """The results, those of some files with more that is known of the project."""
        project = msgspec.structs.replace(self.context.project, **known)
        context = msgspec.structs.replace(self.context, project=project)
        files = self.found.files
        return [
            _assessed((0, file, data), assess, context)
            if file.shown in paths and isinstance(data := self._read(file, read(file.path)), bytes)
            else result
            for file, result in zip(files, results, strict=False)
        ] + results[len(files) :]  # fmt: skip

    def written(self, results: list[FileResult], *, allow_dirty: bool) -> list[FileResult]:
        """Writes what changed; a file that could not be written is failed."""
        # By their place in the list, not by the path that is shown.
        paths = [file.path for file in self.found.files]
        pairs = list(zip(paths, results, strict=False))
        return written(self.root, pairs, allow_dirty) + results[len(pairs) :]

    def _unused(self, results: Iterable[FileResult]) -> frozenset[str]:
        """What has stops left to a person and is offered at most: files, functions, classes and methods that no code which a run may need uses."""
        questions = {
            (result.path, ".".join(finding.function.split(".")[:depth]))
            for result in results
            for depth in (1, 2)
            for finding in result.findings
            if not finding.fix
            if finding.severity in ("error", "unknown") or finding.effect == "cpu"
        }
        if not questions:
            return frozenset()
        alone = {path for path, _ in questions if path.endswith(".py") and self.needed.reached} - self.needed.reached  # fmt: skip
        apart = self.needed.around | self.needed.others
        code = (f for f in self.found.files if f.kind != "markdown" and f.shown not in apart)
        texts = ((f.shown, data) for f in code if isinstance(data := read(f.path), bytes))
        uses = Uses(texts, self.context.project.names(OFF))
        idle = {path for path in alone if uses.idle(path) and not self.facts.listed(path)}
        return frozenset(f"{path}:{name}" for path, name in questions if name and uses.offered(path, name)) | idle  # fmt: skip

    def report(self, results: Iterable[FileResult], stage: Stage = "before") -> Report:
        """The results in path order."""
        from hpushim import __version__

        matrix, fed = self.context.matrix, self.facts.fed(self.needed.around)
        results = sorted(results, key=lambda result: result.path)
        results = [self._on_host(each) if each.path in fed else each for each in results]
        named = {f.row for result in results for f in result.findings if f.row}
        known = {name: row for name in sorted(named) if (row := matrix.row(name))}
        target = self.context.target
        assessed = {name: matrix.assess(row, target).status for name, row in known.items()}
        return Report(
            tool=f"hpushim {__version__}",
            target=target,
            files=tuple(results),
            root=str(self.root),
            unknown=frozenset(name for name, status in assessed.items() if status == "unknown"),
            stage=stage,
            matrix=matrix.edition,
            rows={
                name: Basis(assessed[name], row.confidence, row.note, row.effort, row.effect)
                for name, row in known.items()
            },
            kernels=self.kernels,
            python_lines=self.python_lines,
            other_framework=self.other_framework,
            around=self.needed.around,
            program=self.needed.program,
            programs=self.needed.programs,
            trained_by=self.needed.trained_by,
            reached=self.needed.reached,
            chosen=self.needed.chosen,
            unused=self._unused(results),
            device_options=self.device_options,
        )

    def _on_host(self, result: FileResult) -> FileResult:
        """Without what costs speed on a device, where no device runs the code, other than what has a fix, or is about the batches that go to one."""
        rows = {f: self.context.matrix.row(f.row) if f.row else None for f in result.findings}
        kept = tuple(
            f
            for f in result.findings
            if f.fix
            or ((row := rows[f]) is not None and row.area == "dataloader")
            or ((row.effect if row else "") or f.effect) != "speed"
        )
        return msgspec.structs.replace(result, findings=kept)


def _defines(result: FileResult) -> bool:
    """Did the file get a definition that others may need as well?"""
    return any(finding.applied and finding.code == "HPU023" for finding in result.findings)


def _one(
    item: tuple[int, File, bytes],
    *,
    assess: Assess,
    context: Context,
    cache: Cache | None,
) -> tuple[FileResult, Questions]:
    """The result for a file, with what was requested from the project for it."""
    if cache is None:
        return _assessed(item, assess, context), []
    cache.begin()
    return _assessed(item, assess, context), cache.questions()


def _assessed(
    item: tuple[int, File, bytes],
    assess: Assess,
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
        return assess(file, source, context)
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


def _lost(item: tuple[int, File, bytes], why: str) -> tuple[FileResult, Questions]:
    return _failed(item[1], why, "HPU002"), []


def analysed(file: File, source: Source, context: Context) -> FileResult:
    found = examine(source.text, file.kind, file.shown, context, source.canonical)
    return _unchanged(file, source, found)


def proposed(file: File, source: Source, context: Context) -> FileResult:
    """The same, with what would become of the file."""
    found = analysed(file, source, context)
    if not any(finding.fix is not None for finding in found.findings):
        return found
    return msgspec.structs.replace(found, proposed=migrated(file, source, context).after)


def _unchanged(file: File, source: Source, findings: tuple[Finding, ...]) -> FileResult:
    """A file left as it is; with its bytes where there is something to point at."""
    before = source.data if findings else None
    return FileResult(file.shown, "unchanged", findings=findings, before=before)


def migrated(file: File, source: Source, context: Context) -> FileResult:
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


def written(
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
