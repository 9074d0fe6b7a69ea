"""Whole proofs whose runs are made by hand: which runs a proof starts, in which folder and with which words, and what they come to."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from steps_by_hand import NORM, loss, run, step

from hpushim.engine import project
from hpushim.errors import HpushimError
from hpushim.matrix import Matrix
from hpushim.model import FileResult, Finding, Report, Span, Target
from hpushim.prove import bounds, cuda, trial, verdicts
from hpushim.prove.compare import Comparison, Difference
from hpushim.prove.locate import Cause
from hpushim.prove.records import Refused
from hpushim.prove.runs import Run
from hpushim.prove.words import Command

SOURCE = "import torch\n\nmodel = (\n    net.cuda()\n)\nx = 1\n"
NO = {"kind": "ValueError", "message": "no", "places": [["t.py", 9]]}
OTHER = {"kind": "KeyError", "message": "other", "places": [["t.py", 7]]}


def made(steps: int = 2, *errors: Any, code: int | None = None, said: str = "", **changes: Any) -> Run:  # fmt: skip
    """A run of some steps: what ``changes`` has is that of its last one."""
    numbers = range(1, steps + 1)
    found = run(*(step(n, **(changes if n == steps else {})) for n in numbers))
    found.record.errors.extend(errors)
    if not steps:
        found.record.processes.clear()
    ended = int(bool(errors)) if code is None else code
    return msgspec.structs.replace(found, code=ended, output=said)


def late(steps: int = 0) -> Run:
    return msgspec.structs.replace(made(steps), code=None, seconds=600.4)


def by_hand(*errors: Any) -> Run:
    found = made(1, *errors)
    found.record.processes[0].by_hand = True
    return found


def narrow(found: Run, kind: str = "bfloat16") -> Run:
    """A run that computes in a narrow format."""
    operator = ["aten.mm.default", [[kind, "hpu", [2, 2]]], ["t.py", 4], 2, ["hpu"]]
    found.record.processes[0].operators[1] = {"operators": [operator] * 9, "collectives": []}
    return found


class Ran(NamedTuple):
    """A run that was started: which, in the copy of which name, with which words, and how."""

    name: str
    folder: str
    words: tuple[str, ...]
    how: dict[str, Any]
    text: str


class Proof(NamedTuple):
    outcome: trial.Outcome
    said: list[str]
    ran: list[Ran]
    migrated: list[Any]

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.ran]


Prove = Callable[..., Proof]


@pytest.fixture
def prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prove:
    """A proof of ``t.py`` in a project of its own; each run that it starts is one of those given by name."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "t.py").write_text(SOURCE)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda pid: {0, 1} if pid == 0 else {0}, raising=False
    )
    monkeypatch.setattr(trial, "finished", list)

    def prove(command: Command | None = None, *, given: dict[str, Run] | None = None, rewrites: tuple[tuple[str, str], ...] = (("net.cuda()", "net.to('hpu')"),), **changes: Any) -> Proof:  # fmt: skip
        runs = {"cpu": made(), "shim": made(), "native": made()} | (given or {})
        found = Proof(None, [], [], [])  # type: ignore[arg-type]

        @contextlib.contextmanager
        def started(way: str, title: str, command: Command, folder: Path, cwd: Path, plan: Any, **how: Any) -> Iterator[Run]:  # fmt: skip
            name = "again" if title == "again" else f"float32 {way}" if how.get("float32") else way
            top = folder.relative_to(plan.scratch).parts[0]
            file = folder / ("t.py" if (folder / "t.py").exists() else Path(command.script).name)
            text = file.read_text() if file.exists() else ""
            how |= {"plan": plan, "cwd": str(cwd.relative_to(folder))}
            found.ran.append(Ran(name, top, (command.script, *command.args), how, text))
            yield msgspec.structs.replace(runs[name], way=way, title=title)

        def migrate(paths: tuple[Path, ...], target: Target, **how: Any) -> Report:
            (at,) = paths
            found.migrated.append((target, how))
            after = before = (folder / "t.py").read_text() if (folder / "t.py").exists() else SOURCE
            for old, new in rewrites:
                after = after.replace(old, new)
            (at / "t.py").write_text(after)
            place = Finding("HPU101", "cuda-call", "warning", "safe", "m", Span(20, 30), 4, 1, 4, 9, applied=True)  # fmt: skip
            return Report("hpushim", target, (FileResult("t.py", "changed", None, (place,), before.encode(), after.encode()),))  # fmt: skip

        monkeypatch.setattr(trial, "started", started)
        monkeypatch.setattr(project, "migrate", migrate)
        request = trial.Request(command=command or Command((), "t.py", ("--x",)), **changes)
        return found._replace(outcome=trial.prove(request, found.said.append))

    return prove


CPU = "running the original on the CPU (nothing of the command names a device, so that its own check for one decides)"
BESIDE = "running the original under the shim, and beside it the migrated copy, on the emulated HPU"
APART = ["running the original under the shim on the emulated HPU", "running the migrated copy on the emulated HPU"]  # fmt: skip


def test_a_proof_makes_three_runs(prove: Prove) -> None:
    found = prove()
    assert found.names == ["cpu", "shim", "native"] == [one.folder for one in found.ran]
    assert [one.text for one in found.ran] == [SOURCE, SOURCE, SOURCE.replace("net.cuda()", "net.to('hpu')")]  # fmt: skip
    assert found.said[1:] == [BESIDE] and found.said[0].startswith("running the original on the CPU (")  # fmt: skip
    lines = {"t.py": [3, 4, 5]}
    assert [one.how.get("lines") for one in found.ran] == [lines, lines, None]
    assert {one.how["cwd"] for one in found.ran} == {"."}
    outcome = found.outcome
    assert (outcome.verdict, outcome.reason, outcome.ends, outcome.rehearsals) == ("equal", "", "", 0)  # fmt: skip
    assert [(one.first, one.second, one.steps) for one in outcome.comparisons] == [("shim", "native", 2), ("cpu", "shim", 2)]  # fmt: skip
    assert [one.title for one in outcome.runs] == ["original, on the CPU", "original, under the shim", "migrated copy, natively"]  # fmt: skip
    assert (outcome.on_hpu, outcome.written, outcome.elsewhere, outcome.unmigrated) == (1.0, [], [], "")  # fmt: skip
    assert outcome.traced == {"t.py": {3, 4, 5}} and not outcome.migrated.exists()
    assert outcome.cpu is not None and outcome.cpu.why in found.said[0]


def test_what_a_request_says_is_what_the_migration_and_the_runs_are_given(prove: Prove, tmp_path: Path) -> None:  # fmt: skip
    matrix: Any = Matrix.__new__(Matrix)
    seen: list[str] = []
    found = prove(
        matrix=matrix, select=("HPU1",), ignore=("HPU2",), exclude=("a",), unsafe=True, steps=3, seed=7, timeout=9, devices=4, no_cpu=True,
        traced={"t.py": {1}, "u.py": {2}}, keep=tmp_path / "kept", plant=lambda at: seen.append((at / "t.py").read_text()),
    )  # fmt: skip
    ((target, how),) = found.migrated
    assert target == Target()
    assert how == {"matrix": matrix, "select": ("HPU1",), "ignore": ("HPU2",), "exclude": ("a",), "unsafe": True, "allow_dirty": True}  # fmt: skip
    plan = found.ran[0].how["plan"]
    assert (plan.steps, plan.seed, plan.timeout, plan.devices, plan.mode) == (3, 7, 9, 4, "lazy")
    assert found.names == ["shim", "native"] and found.said == APART
    assert found.ran[0].how["lines"] == {"t.py": [1, 3, 4, 5], "u.py": [2]}
    assert found.outcome.cpu is None and len(found.outcome.comparisons) == 1
    assert seen == [found.ran[1].text] and "hpu" in seen[0]
    assert (tmp_path / "kept/native/t.py").read_text() == seen[0]


def test_the_lines_that_changed_and_the_one_above_are_asked_about(prove: Prove) -> None:
    Path("t.py").write_text("a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\n")
    found = prove(rewrites=(("a = 1", "a = 0"), ("e = 5\n", "e = 5\ng = 7\n")))
    assert found.outcome.traced == {"t.py": {1, 4, 5}}


def test_what_is_kept_has_the_links_of_the_copies(prove: Prove, tmp_path: Path) -> None:
    Path("link").symlink_to(tmp_path)
    (tmp_path / "kept").mkdir()
    prove(keep=tmp_path / "kept")
    assert (tmp_path / "kept/cpu/link").is_symlink() and (tmp_path / "kept/shim/t.py").is_file()


def test_a_scratch_folder_that_is_gone_already_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def proved(found: trial.Trial) -> Any:
        shutil.rmtree(found.scratch)
        return types.SimpleNamespace()

    monkeypatch.setattr(trial, "_proved", proved)
    assert trial.prove(trial.Request(command=Command((), __file__, ()), cwd=Path(__file__).parent)).written == []  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "mode"),
    [(Target(), "lazy"), (Target(mode="eager"), "eager"), (Target(mode="compile"), "compile"), (Target(mode="lazy"), "lazy"), (Target(style="agnostic"), "eager"), (Target(style="agnostic", mode="lazy"), "lazy"), (Target(style="dual"), "lazy"), (Target(style="agnostic", mode="compile"), "compile")],
)  # fmt: skip
def test_the_mode_of_the_runs(target: Target, mode: str) -> None:
    assert trial._mode(target) == mode


def test_devices_are_as_many_as_the_launcher_starts(prove: Prove) -> None:
    command = Command(("torchrun", "--nproc-per-node", "2"), "t.py", ())
    found = prove(command)
    assert found.ran[0].how["plan"].devices == command.processes == 2
    assert found.said[1:] == APART


def test_a_program_s_words_are_those_of_its_way_and_its_copy(prove: Prove) -> None:
    here = str(Path.cwd())
    words = ("--device", "cuda", f"{here}/data", f"--out={here}", f"x={here}x", "/elsewhere")
    found = prove(Command((), f"{here}/t.py", words))
    for one, kind in zip(found.ran, ("cpu", "cuda", "hpu"), strict=True):
        script, _, device, *others = one.words
        top = script.removesuffix("/t.py")
        assert top.endswith(f"/{one.folder}") and device == kind
        assert others == [f"{top}/data", f"--out={top}", f"x={here}x", "/elsewhere"]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("gone.py", "gone.py: no such script; expected a Python file or a notebook"),
        ("--steps", "--steps: no such script; expected a Python file or a notebook; options of hpushim come before the script, and before --prove"),
        ("bad.ipynb", "bad.ipynb: not a notebook: "),
    ],
)  # fmt: skip
def test_what_is_no_script_is_refused(prove: Prove, script: str, why: str) -> None:
    Path("bad.ipynb").write_text("{")
    with pytest.raises(HpushimError) as told:
        prove(Command((), script, ()))
    assert str(told.value) == why if script != "bad.ipynb" else str(told.value).startswith(why)


@pytest.mark.parametrize("absolute", [True, False])
def test_a_notebook_runs_as_the_script_of_its_cells(prove: Prove, absolute: bool) -> None:
    cells = [{"cell_type": "code", "source": [text], "metadata": {}, "outputs": [], "execution_count": None} for text in ("x = 1", "no python", "y = 2")]  # fmt: skip
    Path("n.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))  # fmt: skip
    Path("t.py").unlink()
    given = str(Path.cwd() / "n.ipynb") if absolute else "n.ipynb"
    found = prove(Command((), given, ()), rewrites=(), plant=lambda at: (at / "t.py").unlink())
    for one in found.ran:
        assert [line for line in one.text.splitlines() if line.strip()] == ["x = 1", "y = 2"]
        assert one.words[0] == "n_cells.py" if not absolute else one.words[0].endswith(f"/{one.folder}/n_cells.py")  # fmt: skip


def test_a_folder_outside_of_the_project_is_refused(prove: Prove, tmp_path: Path) -> None:
    with pytest.raises(HpushimError, match=r"the current folder is outside of the project .*/project/in; change to the project's folder, or name a wider folder with --root"):  # fmt: skip
        prove(root=Path("in"))
    assert prove(root=tmp_path).ran[0].how["cwd"] == "project"


def test_a_module_has_no_script(prove: Prove) -> None:
    found = prove(Command((), "pkg.train", ("a",), module=True))
    assert {one.words for one in found.ran} == {("pkg.train", "a")}
    assert found.outcome.verdict == "equal"


def test_what_is_loaded_from_beside_the_folder_begins_again_with_a_wider_one(prove: Prove) -> None:
    Path("sub").mkdir()
    Path("t.py").rename("sub/t.py")
    os.chdir("sub")
    given = made()
    given.record.beside = {"lib/b.py", "lib/a.py"}
    for way, names in (("cpu", ["cpu", "cpu", "shim", "native"]), ("shim", ["cpu", "shim", "native"] * 2)):  # fmt: skip
        with pytest.MonkeyPatch.context() as patched:
            once = [given]
            patched.setattr(trial.Trial, "wider", _once(trial.Trial.wider, way, once))
            found = prove(given={way: made()})
        assert found.names == names
        (said,) = (line for line in found.said if "beginning again" in line)
        assert said == "the script loads lib/a.py from outside of sub: beginning again with project as the project's folder"  # fmt: skip
        assert found.ran[0].how["cwd"] == "." and found.ran[-1].how["cwd"] == "sub"
    named = prove(given={"cpu": given}, root=Path())
    assert named.names == ["cpu", "shim", "native"]


def _once(wider: Any, way: str, once: list[Run]) -> Any:
    """That of the first trial finds a file beside its folder in the run of this way; later ones do not."""

    def found(self: Any, runs: list[Run]) -> Any:
        return wider(self, once) if any(one.way == way for one in runs) and self.scratch.name != "wider" else None  # fmt: skip

    return found


def test_a_later_proof_takes_the_runs_of_the_original_from_an_earlier_one(prove: Prove) -> None:
    first = prove(target=Target(style="dual"), look=lambda: cuda.Found("p", why="none"), given={"copy": made()})  # fmt: skip
    second = prove(baseline=first.outcome, target=Target(style="dual"), given={"native": made(losses=loss(9.0))}, locate=False)  # fmt: skip
    assert second.names == ["native"] and second.said == APART[1:]
    assert second.outcome.runs[:2] == first.outcome.runs[:2]
    assert (second.outcome.verdict, second.outcome.cpu, second.outcome.traced) == ("different", first.outcome.cpu, first.outcome.traced)  # fmt: skip
    again = prove(baseline=first.outcome, target=Target(style="dual"))
    assert again.names == ["native"]
    assert again.outcome.cuda == "not run on CUDA: the copy is different already, or is one of several"  # fmt: skip


def test_what_the_runs_write_into_the_project_is_told(prove: Prove) -> None:
    found = prove(plant=lambda at: Path("new.txt").write_text("x"))
    assert found.outcome.written == ["new.txt"]


# What runs and comparisons come to.

SAME, FURTHER = Comparison("shim", "native", 2), Comparison("cpu", "shim", 2)
WIDE = {"bound": bounds.Bound("bfloat16", 600), "exact": False, "apart": 2}
NOTHING = {"gradients": {**NORM, "norm": "0.0"}}
NO_NUMBER = {"gradients": {**NORM, "norm": "nan"}}


@pytest.mark.parametrize(
    ("runs", "pairs", "expected"),
    [
        ([made(), made(), made()], [SAME, FURTHER], ("equal", "", "")),
        ([made(), made()], [SAME], ("equal", "", "")),
        ([made(), made(2, NO), made(2, NO)], [SAME, FURTHER], ("equal", "", "ValueError: no")),
        ([made(), made(), made(2, NO)], [SAME, FURTHER], ("equal", "", "ValueError: no")),
        ([made(2, NO), made()], [SAME], ("equal", "", "")),
        ([made(0), made(2, NO), made(2, NO)], [SAME], ("not proved", "2 steps agree, then the script fails on hpu, the original and its migrated copy: ValueError: no", "")),
        ([made(2, NO), made(2, NO)], [SAME], ("not proved", "2 steps agree, then the script fails on hpu, the original and its migrated copy: ValueError: no", "")),
        ([made(2, NO), made(2, NO), made(2, NO)], [SAME, FURTHER], ("equal", "", "ValueError: no")),
        ([made(), made()], [msgspec.structs.replace(SAME, difference=Difference("loss", "this", 1))], ("different", "this", "")),
        ([made(), made()], [SAME, msgspec.structs.replace(SAME, difference=Difference("loss", "that", 1))], ("different", "that", "")),
        ([made(), late(), made()], [SAME], ("not proved", "run: stopped after 600 s, before its first optimizer step; give it more time with --timeout", "")),
        ([made(), made(), late()], [SAME], ("not proved", "run: stopped after 600 s, before its first optimizer step; give it more time with --timeout", "")),
        ([late(), made(), made()], [SAME], ("equal", "", "")),
        ([made(), late(1), late(1)], [SAME], ("equal", "", "")),
        ([made(0, NO), made(0, NO), made(0, NO)], [SAME], ("not proved", "the script fails in every run: ValueError: no", "")),
        ([made(0, NO), made(0, NO)], [SAME], ("not proved", "the script fails in every run: ValueError: no", "")),
        ([by_hand(NO), by_hand(NO), by_hand(NO)], [SAME], ("not proved", "the script fails in every run before its first optimizer step: ValueError: no", "")),
        ([made(), made(0, NO), made(0, NO)], [SAME], ("not proved", "the script fails on hpu, the original and its migrated copy: ValueError: no; the CPU run made 2 steps", "")),
        ([made(0, OTHER), made(0, NO), made(0, NO)], [SAME], ("not proved", "the script fails on hpu, the original and its migrated copy: ValueError: no; the CPU run fails otherwise: KeyError: other", "")),
        ([made(0, code=3), made(0, NO), made(0, NO)], [SAME], ("not proved", "the script fails on hpu, the original and its migrated copy: ValueError: no; the CPU run fails otherwise: exit code 3", "")),
        ([made(0, code=3), made(0, code=3), made(0, code=3)], [SAME], ("not proved", "the script fails in every run: exit code 3", "")),
        ([made(0), made(0), made(0)], [SAME], ("not proved", "no optimizer step was seen: only exit code and output were compared", "")),
        ([by_hand(), by_hand(), by_hand()], [SAME], ("equal", "", "")),
        ([made(), made(), made()], [msgspec.structs.replace(SAME, steps=0)], ("not proved", "no step was compared", "")),
        ([made(), made(), made()], [msgspec.structs.replace(SAME, steps=0), FURTHER], ("equal", "", "")),
        ([made(**NOTHING), made(2, **NOTHING)], [SAME], ("equal", "", "")),
        ([made(1, **NOTHING), made(1, **NOTHING)], [SAME], ("not distinguishable", "each gradient is 0 or not finite, so that other data would have made no difference: look at the loss", "")),
        ([made(1, **NO_NUMBER), made(1, **NOTHING)], [SAME], ("not distinguishable", "each gradient is 0 or not finite, so that other data would have made no difference: look at the loss", "")),
        ([made(1, **NOTHING), made(1)], [SAME], ("equal", "", "")),
        ([made(1, gradients={**NORM, "count": 0, "norm": "0.0"}), made(1, gradients=None)], [SAME], ("equal", "", "")),
        ([made(), made()], [msgspec.structs.replace(SAME, loss=1.5e-7)], ("equal within", "1.5e-07", "")),
        ([made(), made()], [msgspec.structs.replace(SAME, exact=False)], ("equal within", "0.0e+00", "")),
        ([made(), made()], [SAME, msgspec.structs.replace(FURTHER, parameters=2e-7, gradients=3e-7)], ("equal within", "3.0e-07", "")),
        ([made(2, NO), made(2, NO), made(2, NO)], [SAME, msgspec.structs.replace(FURTHER, loss=2e-7)], ("equal within", "2.0e-07", "ValueError: no")),
    ],
)  # fmt: skip
def test_what_runs_and_comparisons_come_to(runs: list[Run], pairs: list[Comparison], expected: tuple[str, ...]) -> None:  # fmt: skip
    pairs = [msgspec.structs.replace(one, bound=bounds.Bound("float32", 10)) for one in pairs]
    assert verdicts.of(runs, runs[-2], pairs) == expected


@pytest.mark.parametrize(
    ("roundings", "apart", "fewer"),
    [(600, 2, ""), (2, 2, ", over fewer steps (--steps 1)"), (2, 1, ""), (600, 1, "")],
)
def test_a_bound_that_lets_too_much_pass(roundings: int, apart: int, fewer: str) -> None:
    bound = bounds.Bound("float16", roundings)
    pair = Comparison("cpu", "shim", 2, 0.03, 0.1, 0.01, bound=bound, exact=False, apart=apart)
    found = verdicts.of([made(), made()], made(), [SAME_BOUND, pair])
    said = f"the runs are apart by loss 3.0e-02, parameters 1.0e-02, gradients 1.0e-01, which rounding in float16 alone could explain ({bound.at(1):.1e} a step) and a fault could too; compare in float32 (without autocast){fewer}, without dropout"
    assert found == ("not distinguishable", said, "")


SAME_BOUND = msgspec.structs.replace(SAME, bound=bounds.Bound("float32", 10))


@pytest.mark.parametrize(("far", "wide"), [("loss", 0.02), ("parameters", 0.02), ("gradients", 0.2)])  # fmt: skip
def test_how_far_apart_equal_runs_may_be(far: str, wide: float) -> None:
    for value, found in ((wide, []), (wide * 1.01, ["x"])):
        pair = msgspec.structs.replace(SAME_BOUND, **{far: value})
        assert len(verdicts._too_wide([pair])) == len(found)


def test_the_share_of_work_on_hpu() -> None:
    def ran(*devices: str) -> Run:
        found = made(1)
        operators = [["aten.mm.default", [["float32", one, [2]]], ["t.py", 4], 2, [one]] for one in devices]  # fmt: skip
        found.record.processes[0].operators[1] = {"operators": operators, "collectives": []}
        return found

    def kept(*kinds: str) -> Run:
        return made(1, parameters={**NORM, "kinds": dict.fromkeys(kinds, 1)})

    share = verdicts.share
    assert share(ran("hpu", "hpu", "cpu", "hpu")) == 0.75
    assert share(ran("hpu"), ran("cpu", "hpu")) == 0.5
    assert share(ran("cpu"), ran("hpu")) == 0.0
    assert share(kept("float32 on hpu", "float32 on cpu"), ran("hpu")) == 0.5
    assert share(kept()) == 1.0  # the device of the losses
    assert share(made(1, parameters={**NORM, "kinds": {}}, losses=[])) == 0.0
    assert share(made(0), made(0)) is None
    assert share(made(0), ran("hpu")) == 1.0


def test_where_the_original_fails_on_hpu_its_run_on_the_cpu_tells_which_lines_ran() -> None:
    cpu, shim, failed = made(), made(), made(1, NO)
    for one, line in ((cpu, 1), (shim, 2), (failed, 3)):
        one.record.lines, one.record.files = {("t.py", line)}, {f"{line}.yaml"}
    native = made()
    assert verdicts.reached([cpu, shim, native]) == ({("t.py", 2)}, {"2.yaml"})
    assert verdicts.reached([cpu, failed, native]) == ({("t.py", 1), ("t.py", 3)}, {"1.yaml", "3.yaml"})  # fmt: skip
    assert verdicts.reached([failed, native]) == ({("t.py", 3)}, {"3.yaml"})


# What a proof asks again.


def bits(number: int, value: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"parameters": {**NORM, "bits": number}, "losses": loss(value), **more}


@pytest.mark.parametrize(
    ("native", "again", "kind", "notes"),
    [
        (made(1, **bits(8)), made(1), "bits", 0),
        (made(1, **bits(8)), made(1, **bits(9)), None, 1),
        (made(1, losses=loss(9.0)), made(1), "loss", None),
        (made(1, **bits(8, 1.0 + 5e-10)), None, None, 0),
    ],
)
def test_other_bits_count_where_the_original_repeats_its_own(prove: Prove, native: Run, again: Run | None, kind: str | None, notes: int | None) -> None:  # fmt: skip
    for one in (native, again or made()):
        narrow(one, "float32")
    given = {"shim": narrow(made(1), "float32"), "native": native} | ({"again": again} if again else {})  # fmt: skip
    found = prove(given=given, no_cpu=True, locate=False)
    rerun = kind != "loss" and again is not None
    assert found.names[2:] == ["again"] * rerun
    assert found.outcome.rehearsals == int(rerun)
    difference = found.outcome.difference
    assert (difference and difference.kind) == kind
    assert found.outcome.verdict == ("different" if kind else "equal within" if native.record.processes[0].steps[0]["losses"] != loss(1.0) or again else "equal")  # fmt: skip
    said = "running the original under the shim again, to check whether its bits repeat"
    assert (said in found.said) == rerun
    if rerun:
        assert (found.ran[2].folder, found.ran[2].text) == ("again-1", SOURCE)
    if notes is not None:
        asked = [note for note in found.outcome.comparisons[0].notes if "does not repeat" in note]
        assert asked == ["a second run of the original does not repeat its bits either"] * notes


@pytest.mark.parametrize(
    ("again", "verdict", "notes"),
    [
        ("loss is 2.50", "different", []),
        ("loss is 3.50", "equal", ["not compared, since a second run of the original gives another value: 'loss is' in output"]),
    ],
)  # fmt: skip
def test_a_metric_that_differs_counts_where_the_original_repeats_it(prove: Prove, again: str, verdict: str, notes: list[str]) -> None:  # fmt: skip
    given = {"shim": made(said="loss is 2.50"), "native": made(said="loss is 2.75"), "again": made(said=again)}  # fmt: skip
    found = prove(given=given, no_cpu=True, locate=False)
    assert (found.outcome.verdict, found.outcome.rehearsals, found.names[2:]) == (verdict, 1, ["again"])  # fmt: skip
    assert found.ran[2].folder == "again-1" and found.ran[2].text == SOURCE
    assert found.said[-1] == "running the original under the shim again, to check whether its numbers repeat"  # fmt: skip
    assert found.outcome.comparisons[0].notes == notes
    if not notes:
        assert found.outcome.reason == "'loss is' in output, line 1, is 2.75, 2.5 expected"
        assert found.outcome.difference is not None and found.outcome.difference.kind == "metric"


def seeded(*values: int) -> Run:
    """A run that gave torch these seeds."""
    run = made()
    run.record.processes[0].seeds = [{"value": str(one), "place": ["t.py", 4]} for one in values]
    return run


@pytest.mark.parametrize("first", [(), (7,)])
@pytest.mark.parametrize("again", ["as before", "another", "none"])
@pytest.mark.parametrize("with_cpu", [True, False])
def test_a_seed_that_the_original_does_not_repeat_is_no_difference(prove: Prove, first: tuple[int, ...], again: str, with_cpu: bool) -> None:  # fmt: skip
    repeated = {"as before": (*first, 1), "another": (*first, 3), "none": first}[again]
    given = {"cpu": seeded(*first, 4), "shim": seeded(*first, 1), "native": seeded(*first, 2), "again": seeded(*repeated)}  # fmt: skip
    found = prove(given=given, no_cpu=not with_cpu, locate=False)
    assert found.names[2 + with_cpu :] == ["again"] and found.outcome.rehearsals == 1
    if again == "another":
        assert found.outcome.verdict == "not distinguishable" and found.outcome.difference is None
        assert found.outcome.reason.startswith("each run of the original gives torch another seed at t.py:4,")  # fmt: skip
    else:
        assert found.outcome.verdict == "different"
        assert found.outcome.reason == "torch.manual_seed(2), 1 expected"


def test_the_first_of_several_metrics_is_the_difference(prove: Prove) -> None:
    given = {"shim": made(said="loss is 2.50\nloss was 1.5\n"), "native": made(said="loss is 2.75\nloss was 9.5\n")}  # fmt: skip
    found = prove(given={**given, "again": given["shim"]}, no_cpu=True, locate=False)
    assert found.outcome.reason.startswith("'loss is' in output")
    found = prove(given={**given, "again": made(said="loss is 7.5\nloss was 1.5\n")}, no_cpu=True, locate=False)  # fmt: skip
    assert found.outcome.reason.startswith("'loss was' in output, line 2")


@pytest.mark.parametrize("again", ["same", "fails", "no steps", "narrow"])
@pytest.mark.parametrize("mended", [False, True])
def test_a_wide_bound_is_asked_again_in_float32(prove: Prove, again: str, mended: bool) -> None:
    def wide(value: float) -> Run:
        return narrow(made(losses=loss(value), gradients={**NORM, "bits": 9}))

    other = "native" if mended else "shim"
    exact = {"same": made(), "fails": made(2, NO), "no steps": made(0), "narrow": narrow(made(), "float16")}[again]  # fmt: skip
    given = {"cpu": wide(1.0), "shim": wide(1.0001), "native": wide(1.0001), "float32 cpu": made(), f"float32 {other}": exact}  # fmt: skip
    if mended:
        given["shim"] = narrow(made(1, NO))
    found = prove(given=given)
    assert found.names[3:] == ["float32 cpu", f"float32 {other}"]
    assert [one.folder for one in found.ran[3:]] == ["float32-1", "float32-2"]
    assert [("hpu" in one.text) for one in found.ran[3:]] == [False, mended]
    assert found.said[-1] == "running the original on both devices again, in float32: the bound of the narrow format is too wide"  # fmt: skip
    assert found.outcome.rehearsals == 2
    assert [one.float32 for one in found.outcome.comparisons] == [False, False] + [True] * (again == "same")  # fmt: skip
    if again == "same":
        assert found.outcome.comparisons[2].notes[0] == "both without autocast"
    assert found.outcome.verdict == ("equal within" if again == "same" else "not distinguishable")


def test_a_bound_that_is_narrow_enough_is_not_asked_again(prove: Prove) -> None:
    given = {name: narrow(made(losses=loss(value)), "float32") for name, value in (("cpu", 1.0), ("shim", 1.0 + 1e-7), ("native", 1.0 + 1e-7))}  # fmt: skip
    assert prove(given=given).names == ["cpu", "shim", "native"]
    given = {name: narrow(made()) for name in ("cpu", "shim", "native")}
    assert prove(given=given).names == ["cpu", "shim", "native"]
    assert prove(given={name: narrow(made(losses=loss(1.0 + n * 1e-4), gradients={**NORM, "bits": n})) for n, name in enumerate(("shim", "native"), 1)}, no_cpu=True, locate=False).names[:2] == ["shim", "native"]  # fmt: skip


# Where the original fails on hpu, and its copy does not.


@pytest.mark.parametrize("steps", [0, 1])
def test_a_copy_may_do_what_the_original_cannot(prove: Prove, steps: int) -> None:
    found = prove(given={"shim": made(steps, NO)})
    pairs = found.outcome.comparisons
    assert [(one.first, one.second) for one in pairs] == [("shim", "native"), ("cpu", "native")]
    assert pairs[0].notes[0] == "the original fails on hpu, and the copy goes on: ValueError: no"
    assert found.outcome.unmigrated == "ValueError: no"
    assert found.outcome.verdict == "equal"
    assert [one.steps for one in pairs] == [steps, 2]
    printed = prove(given={"shim": made(steps, NO, said="loss 1.5"), "native": made(said="loss 2.5")})  # fmt: skip
    assert printed.outcome.verdict == "equal" and printed.outcome.comparisons[0].odd == []


@pytest.mark.parametrize(
    ("cpu", "shim", "native", "expected"),
    [
        (made(), made(2, NO), made(), True), (made(), made(), made(), False), (made(2, NO), made(2, NO), made(), False), (made(), made(2, NO), made(2, NO), False), (made(code=1), made(2, NO), made(), False),
        (made(), made(2, NO), made(code=1), False), (made(2, NO, code=0), made(2, NO), made(), False), (made(), made(2, code=1), made(), False),
    ],
)  # fmt: skip
def test_when_the_original_fails_on_hpu_alone(cpu: Run, shim: Run, native: Run, expected: bool) -> None:  # fmt: skip
    assert verdicts.is_mended(cpu, shim, native) is expected


MARKLESS = {"marks": [0, 0, 0]}


def test_runs_on_one_device_are_compared_as_such(prove: Prove) -> None:
    """What only two runs on the same device have alike: marks, and the dtype of the loss."""

    def ran(number: int, value: float = 1.0, **last: Any) -> Run:
        """Other bits in the first step, and more in the second."""
        found = narrow(made(2, **last), "float32")
        found.record.processes[0].steps[0].update(bits(number, value))
        return found

    shim, again = ran(7), ran(9)
    given = {"shim": shim, "native": ran(8, **MARKLESS), "again": again}
    asked = prove(given=given, no_cpu=True, locate=False).outcome
    assert asked.reason.startswith("no mark_step behind the optimizer's step") and asked.rehearsals == 1  # fmt: skip
    given["native"] = ran(8, 1.0 + 5e-10, **MARKLESS)
    asked = prove(given=given, no_cpu=True, locate=False).outcome
    assert asked.reason.startswith("no mark_step behind") and asked.rehearsals == 0
    given |= {"native": ran(8), "again": ran(7, **MARKLESS)}
    assert prove(given=given, no_cpu=True, locate=False).outcome.verdict == "equal within"
    given |= {"shim": made(2, NO), "native": made(2, **MARKLESS)}
    assert prove(given=given, locate=False).outcome.reason.startswith("no mark_step")
    kept: dict[str, Any] = {"target": Target(style="agnostic"), "locate": False}
    given = {name: ran(7) for name in ("cpu", "shim", "native", "copy", "cuda")}
    on_cpu = prove(given=given | {"copy": ran(8, 1.0 + 5e-10, **MARKLESS)}, look=lambda: NONE, **kept)  # fmt: skip
    assert on_cpu.outcome.reason.startswith("on the CPU, no mark_step")
    for copy, again, reason, said in (
        (ran(8, **MARKLESS), ran(9), "on CUDA, no mark_step", "run on a card"),
        (ran(8), ran(7, **MARKLESS), "", "not compared on a card: there, two runs of the original differ beyond rounding"),
        (ran(8), ran(9), "", "run on a card"),
    ):  # fmt: skip
        found = prove(given=given | {"cuda-copy": copy, "again": again}, look=lambda: CARD, **kept)
        assert found.outcome.reason.startswith(reason) and found.outcome.cuda == said
        assert (found.outcome.verdict == "different") == bool(reason)


def test_what_is_said_first_of_a_pair(prove: Prove) -> None:
    saved = [{"file": "best.pt", "step": 1, "leaves": {}}]
    cpu, other = made(), made()
    cpu.record.processes[0].saved = saved
    other_operator = ["aten.addmm.default", [["float32", "hpu", [2, 2]]], ["t.py", 4], 2, ["hpu"]]
    shim, native = narrow(made(2, NO), "float32"), narrow(made(), "float32")
    native.record.processes[0].operators[1]["operators"][0] = other_operator
    notes = prove(given={"cpu": cpu, "shim": shim, "native": native}).outcome.comparisons[0].notes
    assert notes[0].startswith("the original fails on hpu") and len(notes) == 2

    def wide(value: float) -> Run:
        return narrow(made(losses=loss(value), gradients={**NORM, "bits": 9}))

    given = {"cpu": wide(1.0), "shim": wide(1.0001), "native": wide(1.0001), "float32 cpu": cpu, "float32 shim": other}  # fmt: skip
    notes = prove(given=given).outcome.comparisons[2].notes
    assert notes[0] == "both without autocast" and "0 checkpoints saved" in notes[1]


# What a style keeps beside hpu.

CARD = cuda.Found("python-of-the-card", "a card")
NONE = cuda.Found("python", why="no card is here")


@pytest.mark.parametrize(
    ("copy", "verdict", "reason"),
    [
        (made(), "equal", ""),
        (made(losses=loss(2.0)), "different", "on the CPU, loss 2, 1 expected"),
        (narrow(made(1, **bits(8)), "float32"), "equal", ""),
        (narrow(made(1, **bits(8, 1.0 + 5e-8)), "float32"), "different", "on the CPU, the same operators gave different bits"),
        (narrow(made(1, **bits(8, 1.0 + 5e-10)), "float32"), "equal", ""),
    ],
)  # fmt: skip
def test_a_style_that_keeps_the_cpu_is_asked_there(prove: Prove, copy: Run, verdict: str, reason: str) -> None:  # fmt: skip
    alike = made(copy.record.steps)
    if copy.record.processes[0].operators:
        narrow(alike, "float32")
    found = prove(given={"cpu": alike, "shim": alike, "native": alike, "copy": copy}, target=Target(style="dual"), look=lambda: NONE)  # fmt: skip
    assert found.names[3:] == ["copy"] and found.said[-1] == "running the migrated copy on the CPU"
    assert (found.ran[3].folder, "hpu" in found.ran[3].text) == ("copy", True)
    assert found.outcome.verdict == verdict
    assert found.outcome.reason.startswith(reason)
    assert [(one.first, one.second) for one in found.outcome.comparisons[2:]] == [("cpu", "copy")]
    assert [one.way for one in found.outcome.elsewhere] == ["copy"]
    card = "not run on CUDA: the copy is different already, or is one of several"
    assert found.outcome.cuda == (card if found.outcome.difference else "not run on CUDA: no card is here")  # fmt: skip


def test_what_is_not_asked_on_the_cpu(prove: Prove) -> None:
    dual: dict[str, Any] = {"target": Target(style="dual"), "look": lambda: NONE, "locate": False}
    plain = ["cpu", "shim", "native"]
    assert prove().names == plain
    assert prove().outcome.cuda == "not run on CUDA: the native style does not keep it"
    assert prove(given={"native": made(losses=loss(3.0))}, **dual).names == plain
    assert prove(given=dict.fromkeys(plain, made(0)), **dual).names == plain
    assert prove(no_cpu=True, **dual).names == plain[1:]


@pytest.mark.parametrize(
    ("given", "names", "verdict", "reason", "said"),
    [
        ({}, ["cuda", "cuda-copy"], "equal", "", "run on a card"),
        ({"cuda": made(0, NO)}, ["cuda"], "equal", "", "not compared on a card: the original makes no step there: ValueError: no"),
        ({"cuda": made(0, code=3)}, ["cuda"], "equal", "", "not compared on a card: the original makes no step there: exit code 3"),
        ({"cuda-copy": made(losses=loss(2.0))}, ["cuda", "cuda-copy", "again"], "different", "on CUDA, loss 2, 1 expected", "run on a card"),
        ({"cuda-copy": made(losses=loss(2.0)), "again": made(losses=loss(3.0))}, ["cuda", "cuda-copy", "again"], "equal", "", "not compared on a card: there, two runs of the original differ beyond rounding"),
        ({"cuda": narrow(made(1), "float32"), "cuda-copy": narrow(made(1, **bits(8)), "float32"), "again": narrow(made(1, **bits(9)), "float32")}, ["cuda", "cuda-copy", "again"], "equal", "", "run on a card"),
        ({"cuda": narrow(made(1), "float32"), "cuda-copy": narrow(made(1, **bits(8)), "float32"), "again": narrow(made(1), "float32")}, ["cuda", "cuda-copy", "again"], "different", "on CUDA, ", "run on a card"),
    ],
)  # fmt: skip
def test_a_style_that_keeps_cuda_is_asked_where_there_is_a_card(prove: Prove, given: dict[str, Run], names: list[str], verdict: str, reason: str, said: str) -> None:  # fmt: skip
    runs = {"copy": made(), "cuda": made(), "cuda-copy": made(), "again": made()} | given
    found = prove(given=runs, target=Target(style="agnostic"), look=lambda: CARD)
    assert found.names[4:] == names
    assert found.said[4 if "mode" in found.said else -1] == "running the original and the migrated copy on a card"  # fmt: skip
    assert found.outcome.verdict == verdict and found.outcome.cuda == said
    assert found.outcome.reason.startswith(reason)
    assert {one.how["plan"].cuda_python for one in found.ran[4:]} == {"python-of-the-card"}
    assert [one.folder for one in found.ran[4:]] == [*names[:2], "again-1"][: len(names)]
    assert ["hpu" in one.text for one in found.ran[4:]] == [False, True, False][: len(names)]
    assert [one.way for one in found.outcome.elsewhere] == ["copy", *names[:2]]
    pairs = found.outcome.comparisons[3:]
    assert [(one.first, one.second) for one in pairs] == [("cuda", "cuda-copy")] * (len(names) > 1)
    repeats = len(names) == 3 and verdict == "equal"
    assert (pairs[0].notes[-1:] if pairs else []) == ["a second run of the original does not repeat its bits either"] * repeats  # fmt: skip
    assert found.outcome.rehearsals == int(len(names) == 3)


# What a Gaudi does otherwise, and where runs part.


@pytest.mark.parametrize("kind", ["refused", "narrowed"])
def test_what_a_gaudi_does_otherwise_is_told_once_in_lines_of_the_original(prove: Prove, kind: str) -> None:  # fmt: skip
    shim, native = made(), made()
    getattr(shim.record, kind).extend([Refused("HPU1", "b", "t.py", 6), Refused("HPU1", "lib")])
    getattr(native.record, kind).extend(
        [Refused("HPU1", "b", "t.py", 8), Refused("HPU2", "b", "t.py", 4), Refused("HPU1", "a"), Refused("HPU1", "b", "t.py", 6)]
    )  # fmt: skip
    found = prove(given={"shim": shim, "native": native}).outcome
    told = {"refused": found.refused, "narrowed": found.narrowed}
    assert told.pop(kind) == [Refused("HPU2", "b", "t.py", 4), Refused("HPU1", "b", "t.py", 6), Refused("HPU1", "a"), Refused("HPU1", "lib")]  # fmt: skip
    assert list(told.values()) == [[]]


@pytest.mark.parametrize("asked", [True, False])
def test_where_runs_part_is_looked_for_where_it_is_asked(prove: Prove, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(trial, "locate", lambda trial, outcome: Cause(step=7))
    other = prove(given={"native": made(losses=loss(9.0))}, locate=asked).outcome
    assert other.cause == (Cause(step=7) if asked else None)
    assert other.verdict == "different" and prove(locate=asked).outcome.cause is None
