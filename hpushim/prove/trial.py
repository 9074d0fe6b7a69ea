"""The whole of a proof: copies, the three runs, their comparison, what was covered, where they part."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hpushim.errors import HpushimError
from hpushim.model import Origin, Report, Target
from hpushim.prove import copies, covered, cuda, metrics, verdicts, words
from hpushim.prove.compare import BITS, Comparison, Difference, compare
from hpushim.prove.covered import Coverage
from hpushim.prove.hunks import Hunk, between, original_line
from hpushim.prove.locate import Cause, locate
from hpushim.prove.records import Refused
from hpushim.prove.runs import (
    ON_CPU,
    Plan,
    Run,
    Started,
    Way,
    failure,
    finished,
    in_copy,
    leaving_nothing,
    started,
)
from hpushim.prove.verdicts import Verdict
from hpushim.prove.words import Command, OnCpu

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

#: How far apart two runs of the same operators may be without a value that was changed: less than float32 can say.
_NOTHING = 1e-9

_TITLES = {
    "cpu": "original, on the CPU",
    "shim": "original, under the shim",
    "native": "migrated copy, natively",
    "copy": "migrated copy, on the CPU",
    "cuda": "original, on CUDA",
    "cuda-copy": "migrated copy, on CUDA",
}


class Request(msgspec.Struct, kw_only=True):
    """What to prove.

    The runs of the original are those of ``baseline``, an earlier proof of the same command, where one is given. The run under the shim has
    to say which of the lines ``traced`` ran, beside those that the proof is about. For trials of the proof itself, ``plant`` changes the migrated copy.
    """

    command: Command
    target: Target = msgspec.field(default_factory=Target)
    matrix: Matrix | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unsafe: bool | frozenset[Origin] = False
    root: Path | None = None
    cwd: Path = msgspec.field(default_factory=Path.cwd)
    cpu_args: tuple[str, ...] | None = None
    no_cpu: bool = False
    steps: int = 20
    timeout: float = 600
    seed: int = 1234
    devices: int | None = None
    keep: Path | None = None
    locate: bool = True
    plant: Callable[[Path], None] | None = None
    baseline: Outcome | None = None
    traced: dict[str, set[int]] = {}
    look: cuda.Look = cuda.look

    @property
    def folder(self) -> Path:
        """The project's folder."""
        cwd = os.path.realpath(self.cwd)
        script = os.path.realpath(self.cwd / self.command.script)
        near = [cwd] if self.command.module else [cwd, os.path.dirname(script)]  # noqa: PTH120
        return Path(os.path.realpath(self.root or os.path.commonpath(near)))


class Outcome(msgspec.Struct):
    """What came out. ``where`` says in words where the runs part, where they do."""

    verdict: Verdict
    reason: str
    migrated: Path
    runs: list[Run]
    comparisons: list[Comparison]
    coverage: Coverage
    cpu: OnCpu | None
    on_hpu: float | None
    report: Report
    cause: Cause | None = None
    written: list[str] = msgspec.field(default_factory=list)
    rehearsals: int = 0
    traced: dict[str, set[int]] = msgspec.field(default_factory=dict)
    ends: str = ""  # the error in which every run ends behind the last step that was compared
    unmigrated: str = ""  # the error of the original on hpu, where its copy goes on
    refused: list[Refused] = msgspec.field(default_factory=list)
    narrowed: list[Refused] = msgspec.field(default_factory=list)
    #: The copy on the devices that its style keeps, beside those that all styles have.
    elsewhere: list[Run] = msgspec.field(default_factory=list)
    #: The CUDA device that the original and the copy ran on, or why they did not.
    cuda: str = "not run on CUDA: the native style does not keep it"

    @property
    def difference(self) -> Difference | None:
        return next((c.difference for c in self.comparisons if c.difference), None)


class Trial:
    """One proof at work: the copies, and how a run of each is made."""

    def __init__(self, request: Request, scratch: Path, say: Callable[[str], None]) -> None:
        from hpushim.engine.files.discover import project_root

        self.request = request
        self.say = say
        self.scratch = scratch
        command = request.command
        self.cwd = Path(os.path.realpath(request.cwd))
        script = None if command.module else Path(os.path.realpath(self.cwd / command.script))
        if script is not None and not script.is_file():
            late = "; options of hpushim come before the script, and before --prove" if command.script.startswith("-") else ""  # fmt: skip
            raise HpushimError(f"{command.script}: no such script; expected a Python file or a notebook{late}")  # fmt: skip
        self.root = request.folder
        #: With what lies beside the project, which is there as links.
        self.wide = project_root([script or self.cwd / "__main__.py"])
        if not self.root.is_relative_to(self.wide) or self.wide == Path(self.wide.anchor):
            self.wide = self.root
        if not self.cwd.is_relative_to(self.root):
            raise HpushimError(
                f"the current folder is outside of the project {self.root}; change to the project's "
                "folder, or name a wider folder with --root"
            )
        self.script = script
        self.on_cpu: OnCpu | None = None
        #: The lines of the original that its run under the shim traces.
        self.traced: dict[str, set[int]] = {}
        self._statements: dict[str, list[tuple[int, int]]] = {}
        self.plan = Plan(
            scratch=scratch,
            tree=self.wide,
            seed=request.seed,
            steps=request.steps,
            timeout=request.timeout,
            devices=request.devices or command.processes,
            mode=_mode(request.target),
        )

    def wider(self, runs: list[Run]) -> Trial | None:
        """The same with a folder that holds what the runs loaded from beside this one too; None where nothing was, or the user named a folder."""
        beside = sorted({name for run in runs for name in run.record.beside})
        if self.request.root is not None or not beside:
            return None
        root = Path(os.path.commonpath([self.root, *(self.wide / name for name in beside)]))
        self.say(f"the script loads {beside[0]} from outside of {self.root.name}: beginning again with {root.name} as the project's folder")  # fmt: skip
        request = msgspec.structs.replace(self.request, root=root)
        return Trial(request, self.scratch / "wider", self.say)

    def copy(self, name: str) -> Path:
        """A fresh copy of the project in the scratch folder."""
        return copies.copy(self.root, self.scratch / name, self.wide)

    def migrate(self, folder: Path) -> Report:
        """Migrates a copy in place; what the rules found there."""
        from hpushim.engine.project import migrate

        request = self.request
        return migrate(
            (folder,),
            request.target,
            matrix=request.matrix,
            select=request.select,
            ignore=request.ignore,
            exclude=request.exclude,
            unsafe=request.unsafe,
            allow_dirty=True,
        )

    def changes(self, report: Report, migrated: Path) -> list[Hunk]:
        """What the migrated copy differs in from the original."""
        return between(self.root, migrated, [file.path for file in report.files])

    def statement(self, file: str, line: int) -> frozenset[int]:
        """The lines of the original of which one runs when the statement of this one does."""
        if file not in self._statements:
            from hpushim import safe_files

            self._statements[file] = covered.statements(safe_files.read(self.root / file))
        return covered.statement_lines(line, self._statements[file])

    def words(self, args: tuple[str, ...], folder: Path) -> Command:
        """The command in a copy: paths that lie in the project lie in the copy."""
        command = self.request.command
        script = command.script
        if self.script is not None:
            script = self.in_copy(command.script, folder)
            if script.endswith(".ipynb"):
                script = _as_script(self.cwd_in(folder), script)
        return msgspec.structs.replace(
            command, script=script, args=tuple(self.in_copy(one, folder) for one in args)
        )

    def in_copy(self, word: str, folder: Path) -> str:
        """A word of the command line with the copy's path where it names the project's."""
        name, equals, value = word.rpartition("=")
        top = self.scratch / folder.relative_to(self.scratch).parts[0]
        return f"{name}{equals}{in_copy(value, self.wide, str(top))}"

    def cwd_in(self, folder: Path) -> Path:
        return folder / self.cwd.relative_to(self.root)

    def run(self, way: Way, title: str, folder: Path, **how: Any) -> Run:
        """Runs the command in a copy, with the arguments that go with the way."""
        with self.started(way, title, folder, **how) as one:
            return finished([one])[0]

    def started(
        self, way: Way, title: str, folder: Path, **how: Any
    ) -> AbstractContextManager[Started]:
        """Starts the command in a copy; it has ended when the block is left."""
        args = self.request.command.args
        if way == "native":
            args = words.on_hpu(args)
        elif way in ON_CPU and self.on_cpu is not None:
            args = self.on_cpu.args
        return started(
            way, title, self.words(args, folder), folder, self.cwd_in(folder), self.plan, **how
        )


def _mode(target: Target) -> str:
    """The mode of the runs: lazy where marks are due, which the agnostic style has in lazy mode alone."""
    if target.mode in ("eager", "compile"):
        return target.mode
    return "eager" if target.style == "agnostic" and target.mode != "lazy" else "lazy"


def _as_script(cwd: Path, notebook: str) -> str:
    """The cells of a notebook as one script beside it, line for line; returns its name. Raises HpushimError."""
    from hpushim import safe_files
    from hpushim.engine.data.notebook import Notebook

    path = cwd / notebook
    try:
        cells = Notebook(safe_files.read(path).decode())
        cells.check()
    except ValueError as error:
        raise HpushimError(f"{notebook}: not a notebook: {error}") from None
    script = path.with_name(covered.cells_name(path.name))
    script.write_text(cells.python, encoding="utf-8")
    return str(script.relative_to(cwd)) if not Path(notebook).is_absolute() else str(script)


def prove(request: Request, say: Callable[[str], None] = lambda line: None) -> Outcome:
    """Makes the copies, the runs and the comparison; nothing of them is left. Raises HpushimError."""
    with leaving_nothing():
        return _in_scratch(request, say)


def _in_scratch(request: Request, say: Callable[[str], None]) -> Outcome:
    scratch = Path(tempfile.mkdtemp(prefix="hpushim-prove-"))
    try:
        trial = Trial(request, Path(os.path.realpath(scratch)), say)
        before = copies.Tree(trial.wide)
        outcome = _proved(trial)
        outcome.written = before.changed()
        if request.keep is not None:
            shutil.copytree(scratch, request.keep, symlinks=True, dirs_exist_ok=True)
        return outcome
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _proved(trial: Trial) -> Outcome:
    request = trial.request
    migrated = trial.copy("native")
    report = trial.migrate(migrated)
    if request.plant is not None:
        request.plant(migrated)
    wanted = covered.wanted(report)
    for hunk in trial.changes(report, migrated):
        traced = trial.traced.setdefault(hunk.file, set())
        for line in range(max(hunk.start, 1), hunk.end + 1):
            traced |= trial.statement(hunk.file, line)
    for file, lines in (*wanted.lines.items(), *request.traced.items()):
        trial.traced.setdefault(file, set()).update(lines)
    if request.baseline is not None:
        trial.traced, trial.on_cpu = request.baseline.traced, request.baseline.cpu
        trial.say("running the migrated copy on the emulated HPU")
        runs = [*request.baseline.runs[:-1], trial.run("native", _TITLES["native"], migrated)]
    else:
        runs = _on_cpu(trial)
        wider = trial.wider(runs)
        if wider is None:
            runs += _on_hpu(trial, migrated, runs)
            wider = trial.wider(runs)
        if wider is not None:
            return _proved(wider)
    shim, native = runs[-2:]
    coverage = covered.covered(wanted, *verdicts.reached(runs), trial.root)
    outcome = Outcome(
        "not proved",
        "",
        migrated,
        runs,
        [],
        coverage,
        trial.on_cpu,
        verdicts.share(shim, native),
        report,
    )
    outcome.traced = trial.traced
    return _on_cuda(trial, _as_before(trial, _assessed(trial, runs, outcome)))


def _as_before(trial: Trial, outcome: Outcome) -> Outcome:
    """What a style keeps for the CPU: the copy does there, bit for bit, what the original did."""
    cpu, request = outcome.runs[0], trial.request
    if request.target.style == "native" or request.baseline is not None or cpu.way != "cpu":
        return outcome
    if not cpu.record.steps or outcome.difference is not None:
        return outcome
    trial.say("running the migrated copy on the CPU")
    run = trial.run("copy", _TITLES["copy"], _migrated_again(trial, outcome, "copy"))
    pair = compare(cpu, run, same_device=True)
    if pair.difference is not None and pair.difference.kind == BITS and pair.largest <= _NOTHING:
        pair = compare(cpu, run, same_device=True, repeats=False)
    outcome.elsewhere.append(run)
    outcome.comparisons.append(pair)
    if pair.difference is not None:
        outcome.verdict = "different"
        outcome.reason = f"on the CPU, {pair.difference.what}"
    return outcome


def _on_cuda(trial: Trial, outcome: Outcome) -> Outcome:
    """What a style keeps for CUDA: the copy does there, bit for bit, what the original does, where this machine has such a device."""
    if trial.request.target.style == "native":
        return outcome
    if trial.request.baseline is not None or outcome.difference is not None:
        outcome.cuda = "not run on CUDA: the copy is different already, or is one of several"
        return outcome
    found = trial.request.look()
    if not found.name:
        outcome.cuda = f"not run on CUDA: {found.why}"
        return outcome
    trial.plan = msgspec.structs.replace(trial.plan, cuda_python=found.python)
    trial.say(f"running the original and the migrated copy on {found.name}")
    first = trial.run("cuda", _TITLES["cuda"], trial.copy("cuda"))
    if not first.record.steps:
        outcome.elsewhere.append(first)
        outcome.cuda = f"not compared on {found.name}: the original makes no step there: {verdicts.failed(first)}"
        return outcome
    second = trial.run("cuda-copy", _TITLES["cuda-copy"], _migrated_again(trial, outcome, "cuda-copy"))  # fmt: skip
    outcome.cuda = f"run on {found.name}"
    pair = compare(first, second, same_device=True)
    if pair.difference is not None:
        outcome.rehearsals += 1
        again = trial.run("cuda", "again", trial.copy(f"again-{outcome.rehearsals}"))
        if not compare(first, again, same_device=True).exact:
            pair = compare(first, second, same_device=True, repeats=False)
            pair.notes.append("a second run of the original does not repeat its bits either")
            if compare(first, again, same_device=True, repeats=False).difference is not None:
                outcome.cuda = f"not compared on {found.name}: there, two runs of the original differ beyond rounding"
                pair.difference = None
    outcome.elsewhere += [first, second]
    outcome.comparisons.append(pair)
    if pair.difference is not None:
        outcome.verdict = "different"
        outcome.reason = f"on CUDA, {pair.difference.what}"
    return outcome


def _migrated_again(trial: Trial, outcome: Outcome, name: str) -> Path:
    """A fresh copy as it was migrated: what the first run wrote into its copy is not in this one."""
    folder = trial.copy(name)
    for file in {one.file for one in trial.changes(outcome.report, outcome.migrated)}:
        shutil.copyfile(outcome.migrated / file, folder / file)
    return folder


def _on_cpu(trial: Trial) -> list[Run]:
    """The run of the original on the CPU, if it was not left out."""
    request = trial.request
    if request.no_cpu:
        return []
    trial.on_cpu = words.on_cpu(request.command.args, _source(trial), request.cpu_args)
    trial.say(f"running the original on the CPU ({trial.on_cpu.why})")
    traced = {file: sorted(lines) for file, lines in trial.traced.items()}
    return [trial.run("cpu", _TITLES["cpu"], trial.copy("cpu"), lines=traced)]


def _on_hpu(trial: Trial, migrated: Path, before: list[Run]) -> list[Run]:
    """The runs of the original under the shim and of the migrated copy: side by side where neither can be in the other's way."""
    copy = trial.copy("shim")
    traced = {file: sorted(lines) for file, lines in trial.traced.items()}
    if _may_go_together(trial.request.command, before):
        trial.say("running the original under the shim, and beside it the migrated copy, on the emulated HPU")  # fmt: skip
        with (
            trial.started("shim", _TITLES["shim"], copy, lines=traced) as shim,
            trial.started("native", _TITLES["native"], migrated) as native,
        ):
            return finished([shim, native])
    trial.say("running the original under the shim on the emulated HPU")
    first = trial.run("shim", _TITLES["shim"], copy, lines=traced)
    trial.say("running the migrated copy on the emulated HPU")
    return [first, trial.run("native", _TITLES["native"], migrated)]


def _may_go_together(command: Command, before: list[Run]) -> bool:
    """Whether two runs may go on at once: each has its cores, and the run before shared nothing with others of its kind."""
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if command.launcher or not threads.isdigit() or 2 * int(threads) > (cores or 1):
        return False
    return all(run.record.steps and not run.record.alone and not failure(run) for run in before) and bool(before)  # fmt: skip


def _source(trial: Trial) -> str:
    from hpushim import safe_files

    if trial.script is None:
        return ""
    return safe_files.read(trial.script).decode(errors="replace")


def _assessed(trial: Trial, runs: list[Run], outcome: Outcome) -> Outcome:
    shim, native = runs[-2:]
    cpu = runs[0] if len(runs) == 3 else None
    #: The run on hpu that is compared with the CPU's.
    whole = shim
    if cpu is not None and verdicts.is_mended(cpu, shim, native):
        # What the original cannot do on hpu, the copy can: beyond that the CPU's run is what it has to do.
        whole = native
        pair = compare(shim, native, same_device=True, cut=True)
        outcome.unmigrated = verdicts.failed(shim)
        pair.notes.insert(0, f"the original fails on hpu, and the copy goes on: {outcome.unmigrated}")  # fmt: skip
        pair.odd.clear()
        outcome.comparisons = [pair]
    else:
        outcome.comparisons = [_on_one_device(trial, outcome)]
    if cpu is not None and verdicts.usable(cpu, shim, native):
        outcome.comparisons.append(compare(cpu, whole, same_device=False))
    drawn = _drawn_seed(trial, outcome)
    if outcome.difference is None and not drawn:
        _in_float32(trial, outcome)
        _odd_metrics(trial, outcome)
    outcome.refused = _reported(trial, outcome, "refused")
    outcome.narrowed = _reported(trial, outcome, "narrowed")
    outcome.verdict, outcome.reason, outcome.ends = verdicts.of(runs, whole, outcome.comparisons)
    if drawn:
        outcome.verdict, outcome.reason, outcome.ends = "not distinguishable", drawn, ""
    if outcome.difference is not None and trial.request.locate:
        outcome.cause = locate(trial, outcome)
    return outcome


def _in_float32(trial: Trial, outcome: Outcome) -> None:
    """Compares the CPU's run again, without autocast on both devices, where the bound of the narrow format would let too much pass."""
    pair = outcome.comparisons[-1]
    if pair.first != "cpu" or not pair.steps or not verdicts.is_wide(pair):
        return
    trial.say(
        "running the original on both devices again, in float32: the bound of the narrow format is too wide"
    )
    again = []
    for run in (one for one in outcome.runs if one.way in (pair.first, pair.second)):
        outcome.rehearsals += 1
        name = f"float32-{outcome.rehearsals}"
        native = run.way == "native"
        folder = _migrated_again(trial, outcome, name) if native else trial.copy(name)
        again.append(trial.run(run.way, run.title, folder, float32=True))
    if any(failure(run) for run in again) or not all(run.record.steps for run in again):
        return
    second = compare(*again, same_device=False)
    assert second.bound is not None
    if not second.bound.format.endswith("float16"):
        second.float32 = True
        second.notes.insert(0, "both without autocast")
        outcome.comparisons.append(second)


def _odd_metrics(trial: Trial, outcome: Outcome) -> None:
    """Makes a difference of the first metric that differs, unless a second run of the original does not repeat it either."""
    odd = [(pair, one) for pair in outcome.comparisons for one in pair.odd]
    if not odd:
        return
    shim, again = outcome.runs[-2], _again(trial, outcome, "numbers")
    varies = {one.key for one in metrics.odd(metrics.of(shim), metrics.of(again), 0.0)}
    for pair, one in odd:
        if one.key in varies:
            pair.notes.append(f"not compared, since a second run of the original gives another value: {one.name} in "
                              f"{one.where}")  # fmt: skip
        elif pair.difference is None:
            pair.difference = Difference("metric", one.shown())


def _again(trial: Trial, outcome: Outcome, what: str) -> Run:
    """A second run of the original under the shim."""
    outcome.rehearsals += 1
    trial.say(f"running the original under the shim again, to check whether its {what} repeat")
    return trial.run("shim", "again", trial.copy(f"again-{outcome.rehearsals}"))


def _drawn_seed(trial: Trial, outcome: Outcome) -> str:
    """Why runs cannot be compared whose original takes a seed from the clock, or from elsewhere, that no second run repeats."""
    if outcome.difference is None or outcome.difference.kind != "seed":
        return ""
    again = _again(trial, outcome, "seeds")
    found = compare(outcome.runs[-2], again, same_device=True).difference
    if found is None or found.kind != "seed":
        return ""
    for pair in outcome.comparisons:
        pair.difference = None
    at = f" at {found.place[0]}:{found.place[1]}" if found.place else ""
    return f"each run of the original gives torch another seed{at}, such as one from the clock; give it a fixed one"


def _reported(
    trial: Trial, outcome: Outcome, kind: Literal["refused", "narrowed"]
) -> list[Refused]:
    """What a Gaudi does otherwise with what ran, each once, in lines of the original; those first that a line of the project requested."""
    shim, native = (getattr(run.record, kind) for run in outcome.runs[-2:])
    hunks = trial.changes(outcome.report, outcome.migrated)
    found = set(shim)
    known = {(one.code, one.what) for one in shim}
    for one in native:
        if (one.code, one.what) not in known:
            line = original_line(hunks, one.file, one.line) if one.file else 0
            found.add(msgspec.structs.replace(one, line=line))
    return sorted(found, key=lambda one: (not one.file, one.file, one.line, one.what))


def _on_one_device(trial: Trial, outcome: Outcome) -> Comparison:
    """The copy against the original. That the bits alone differ counts where a second run of the original repeats its own."""
    shim, native = outcome.runs[-2:]
    pair = compare(shim, native, same_device=True)
    if pair.difference is None or pair.difference.kind != BITS:
        return pair
    if (
        0 < pair.largest <= _NOTHING
    ):  # kernels in float64 round by how their arguments lie in memory
        return compare(shim, native, same_device=True, repeats=False)
    if compare(shim, _again(trial, outcome, "bits"), same_device=True).exact:
        return pair
    pair = compare(shim, native, same_device=True, repeats=False)
    pair.notes.append("a second run of the original does not repeat its bits either")
    return pair
