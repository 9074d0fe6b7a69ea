"""Commands that run a program, with the run left out: what they pass on, which exit code each end has, and which words they refuse."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import hpushim
from hpushim import cli
from hpushim.cli import output, proofs
from hpushim.engine import project, topics
from hpushim.model import FileResult, Report, Target
from hpushim.plan import rank
from hpushim.plan.observed import Observed
from hpushim.prove import certificate, choose, text, trial
from hpushim.shim.run import launch


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(hpushim, "disarm", lambda: None)
    monkeypatch.setattr(output, "quiet", False)
    monkeypatch.setattr(launch, "needs_torch", lambda: None)
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "notes.txt").write_text("")
    for folder in "ab":
        (tmp_path / folder).mkdir()


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> tuple[int, str, str]:
        return (cli.main(list(words)), *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["migrate", "a", "b", "--prove", "train.py"], "--prove needs one PATH: the project's folder"), (["migrate", "train.py", "--prove", "train.py"], "--prove needs one PATH: the project's folder"), (["plan"], "name a script, such as `hpushim plan --world 64 train.py`"),
        (["plan", "notes.txt"], "notes.txt: expected a Python file, without a launcher, since one rank runs; check the path"), (["plan", "gone.py"], "gone.py: expected a Python file, without a launcher, since one rank runs; check the path"),
        (["run"], "name a script, such as `hpushim run train.py`, or a module with -m; expected what python itself takes"), (["prove"], "name a script, such as `hpushim prove train.py`, or a module with -m"), (["portfolio"], "no repository; name some, or a file that lists them with --from"),
    ],
)  # fmt: skip
def test_words_that_name_no_program_are_refused(ran: Any, words: list[str], said: str) -> None:
    code, shown, err = ran(*words)
    assert (code, shown) == (2, "") and f"Error: {said}\n" in err


@pytest.mark.parametrize("verdict", ["equal", "equal within", "different", *sorted(__import__("hpushim.cli.prove", fromlist=["x"])._NOT_SHOWN)])  # fmt: skip
@pytest.mark.parametrize(("share", "under"), [(None, "80"), (0.8, "80"), (0.79, "80"), (0.1, "0")])
@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_how_a_proof_ends(monkeypatch: pytest.MonkeyPatch, ran: Any, verdict: str, share: float | None, under: str, refused: bool, asked: bool) -> None:  # fmt: skip
    outcome = types.SimpleNamespace(verdict=verdict, refused=["x"] * refused, coverage=types.SimpleNamespace(share=share))  # fmt: skip
    monkeypatch.setattr(trial, "prove", lambda wanted, say: (say("a line"), outcome)[1])
    monkeypatch.setattr(text, "text", lambda found, again: f"{again}\n")
    monkeypatch.setattr(certificate, "certificate", lambda *given: "made")
    written: list[Any] = []
    monkeypatch.setattr(proofs, "write", lambda found, files, root: written.append((found, files)))
    code, said, err = ran("prove", "--fail-under", under, *(["--fail-on", "refused"] if asked else []), "train.py", "x")  # fmt: skip
    less = share == 0.79
    hidden = verdict not in ("equal", "equal within", "different")
    assert code == (3 if hidden else 1 if less or verdict == "different" else 5 if refused and asked else 0)  # fmt: skip
    assert said.startswith("hpushim prove") and said.endswith("train.py x\n")
    assert err == "hpushim: a line\n" + "hpushim: 79% of the rewrites ran; --fail-under requires 80 %\n" * less  # fmt: skip
    assert written == [("made", [None, None])]


class _Rank:
    def __init__(self, world: int, steps: int, **how: Any) -> None:
        self.observed = Observed(world, 1)
        self.given = (world, steps, how["memory"] > 10**10, how["fake"])

    def begin(self) -> None:
        self.observed.began = True

    def end(self) -> Observed:
        return self.observed


@pytest.mark.parametrize(
    ("ends", "status"),
    [(None, 0), (rank.Enough(0), 0), (SystemExit(None), 0), (SystemExit(0), 0), (SystemExit(3), 3), (SystemExit("why"), 1)],
)  # fmt: skip
@pytest.mark.parametrize("mode", [None, "compile"])
@pytest.mark.parametrize("groups", [True, False])
def test_how_a_plan_ends(monkeypatch: pytest.MonkeyPatch, ran: Any, ends: BaseException | None, status: int, mode: str | None, groups: bool) -> None:  # fmt: skip
    made: list[_Rank] = []
    asked: list[Any] = []

    def run(program: str, args: tuple[str, ...], *, before: Any, **how: Any) -> None:
        asked.append((program, args, how))
        print("of the program")
        if groups:
            before()
        if ends is not None:
            raise ends

    monkeypatch.setattr(rank, "Rank", lambda *a, **k: made.append(_Rank(*a, **k)) or made[-1])
    monkeypatch.setattr(launch, "run", run)
    words = ["--mode", mode] if mode else []
    code, said, err = ran("plan", "--world", "16", "--steps", "3", *words, "train.py", "--x")
    assert (code, err) == (int(bool(status)), "of the program\n")
    assert said.startswith("ESTIMATE, not a measurement: one rank of 16 on the emulated HPU")
    notes = {"the program ended early with status": status, "the program made no process group: it trains on one device only": not groups, "the plan runs without torch.compile to see each operator": mode}  # fmt: skip
    assert {note: note in said for note in notes} == {note: bool(there) for note, there in notes.items()}  # fmt: skip
    assert asked == [("train.py", ("--x",), {"kind": "file", "gaudi": Target().gaudi, "mode": mode, "devices": 8, "native": False})]  # fmt: skip
    assert made[0].given == (16, 3, True, False)
    assert (os.environ["HPUSHIM"], os.environ["WORLD_SIZE"], sys.stdout is sys.stderr) == ("emulate", "16", False)  # fmt: skip
    if status or mode or not groups:
        return
    code, said, _ = ran("plan", "--world", "2", "--fake", "--native", "--json", "-m", "mod", "x")
    assert code == 0 and said.startswith("{") and made[1].given == (2, 3, True, True)
    assert asked[1] == ("mod", ("x",), {"kind": "module", "gaudi": Target().gaudi, "mode": None, "devices": 2, "native": True})  # fmt: skip


@pytest.mark.parametrize("verdict", ["equal", "different", "not shown"])
@pytest.mark.parametrize("diff", [True, False])
@pytest.mark.parametrize("writes", [True, False])
def test_how_a_migration_with_a_proof_ends(monkeypatch: pytest.MonkeyPatch, ran: Any, verdict: str, diff: bool, writes: bool) -> None:  # fmt: skip
    made = Report("hpushim 1", Target(), (FileResult("train.py", "changed", None, (), b"x\n", b"y\n"),), stage="migrated")  # fmt: skip
    outcome = types.SimpleNamespace(report=made, verdict=verdict)
    proved = verdict == "equal"
    choice = types.SimpleNamespace(outcome=outcome, candidates=["c"], proved=proved)
    asked: list[Any] = []
    monkeypatch.setattr(choose, "choose", lambda wanted, say: (say("a line"), choice)[1])
    monkeypatch.setattr(certificate, "certificate", lambda *given: given[2:])
    monkeypatch.setattr(text, "chosen", lambda choice: "chosen\n")
    monkeypatch.setattr(proofs, "write", lambda found, files, root: asked.append((found, files)))
    monkeypatch.setattr(project, "write", lambda made, folder, allow_dirty: asked.append(allow_dirty) or made)  # fmt: skip
    words = ["--diff"] * diff + ["--output", "r.json", "--format", "json"] * (not diff)
    code, said, err = ran("migrate", *["--allow-dirty"] * writes, *words, ".", "--prove", "train.py", "x")  # fmt: skip
    assert code == (1 if verdict == "different" else 3 if not proved else 1 if diff else 0)
    assert ("+y" in said, Path("r.json").exists()) == (diff and proved, not diff and proved)
    assert ("chosen\n" in said, "chosen\n" in err) == (not diff, diff)
    assert ("hpushim: nothing was written\n" in err) is not proved
    ((found, files),) = [one for one in asked if isinstance(one, tuple)]
    assert (found[0].startswith("hpushim migrate"), "--allow-dirty" in found[0], found[1], files) == (True, writes, ["c"], [None, None])  # fmt: skip
    assert [one for one in asked if isinstance(one, bool)] == [writes] * (proved and not diff)


def _asked(monkeypatch: pytest.MonkeyPatch, made: Report) -> list[Any]:
    """What the commands ask the engine for; it makes nothing but this report."""
    asked: list[Any] = []
    for name in ("analyse", "migrate"):
        monkeypatch.setattr(project, name, lambda paths, target, name=name, **how: asked.append((name, paths, target, how)) or made)  # fmt: skip
    return asked


NOTHING = Report("hpushim 1", Target(), (FileResult("train.py", "unchanged", None, (), b"", b""),))


@pytest.mark.parametrize("command", ["check", "report"])
@pytest.mark.parametrize("form", ["text", "json", "html", "sarif"])
def test_what_a_command_asks_the_engine_for(monkeypatch: pytest.MonkeyPatch, ran: Any, command: str, form: str) -> None:  # fmt: skip
    from hpushim.cli import report as report_command
    from hpushim.report import PROPOSING

    asked = _asked(monkeypatch, NOTHING)
    monkeypatch.setattr(report_command, "_dependencies", lambda *given: ())
    code, _, _ = ran(command, "--format", form, "--select", "HPU1", "--ignore", "HPU101", "--exclude", "b", "--jobs", "3", "--no-cache", "a")  # fmt: skip
    ((name, paths, target, how),) = asked
    assert (code, name, [path.name for path in paths], target) == (0, "analyse", ["a"], Target())
    how.pop("matrix")
    assert callable(how.pop("progress"))
    assert how == {"given": {}, "select": ("HPU1",), "ignore": ("HPU101",), "exclude": ("b",), "jobs": 3, "propose": form in PROPOSING, "cache": False}  # fmt: skip
    os.environ.pop("HPUSHIM_CACHE", None)
    ran(command, "--format", form)
    assert asked[1][3]["cache"] is True and asked[1][3]["jobs"] is None


@pytest.mark.parametrize(("words", "expected"), [([], {}), (["--diff"], {"write": False}), (["--unsafe"], {"unsafe": True}), (["--allow-dirty"], {"allow_dirty": True}), (["--split", "out"], {"write": False, "shared": False})])  # fmt: skip
def test_what_migrate_asks_the_engine_for(monkeypatch: pytest.MonkeyPatch, ran: Any, words: list[str], expected: dict[str, Any]) -> None:  # fmt: skip
    asked = _asked(monkeypatch, NOTHING)
    monkeypatch.setattr(topics, "split", lambda report, made: [])
    code, _, _ = ran("migrate", *words, "--select", "HPU1", "--ignore", "HPU101", "--exclude", "b", "--jobs", "3", "a")  # fmt: skip
    name, paths, _, how = asked[0]
    assert (code, name, [path.name for path in paths]) == (0, "migrate", ["a"])
    how.pop("matrix")
    assert callable(how.pop("progress"))
    plain = {"given": {}, "select": ("HPU1",), "ignore": ("HPU101",), "exclude": ("b",), "unsafe": False, "jobs": 3, "write": True, "shared": True, "allow_dirty": False}  # fmt: skip
    assert how == plain | expected


def test_migrate_that_is_stopped_says_how_to_go_back(monkeypatch: pytest.MonkeyPatch, ran: Any) -> None:  # fmt: skip
    def migrate(*given: Any, **how: Any) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr(project, "migrate", migrate)
    code, said, err = ran("migrate", "a")
    assert (code, said) == (130, "") and err.endswith("hpushim: stopped; --undo restores the files that were already rewritten\n")  # fmt: skip


@pytest.mark.parametrize("refused", [(), ("r",)])
@pytest.mark.parametrize("unused", [(), ("u",)])
@pytest.mark.parametrize("force", [True, False])
def test_what_undo_says(monkeypatch: pytest.MonkeyPatch, ran: Any, refused: tuple[str, ...], unused: tuple[str, ...], force: bool) -> None:  # fmt: skip
    asked: list[Any] = []

    def undo(start: Path, *, force: bool) -> Any:
        asked.append((start.name, force))
        some = start.name == "a"
        return types.SimpleNamespace(run=some, restored=["x y", "z"] if some else [], refused=[(one, "why") for one in refused if some], unused=[(one, "why") for one in unused if some])  # fmt: skip

    monkeypatch.setattr(project, "undo", undo)
    code, said, err = ran("migrate", "--undo", *(["--force"] if force else []), "a", "b")
    assert asked == [("a", force), ("b", force)]
    assert code == (3 if refused or unused else 0)
    assert [line.rpartition("/")[2] for line in said.splitlines()] == ["restored 'x y'" if "'x y'" in said else "restored x y", "restored z", "2 files restored", "b: nothing to undo"]  # fmt: skip
    assert err.splitlines() == ["not restored r: why"] * bool(refused) + ["u: not used: why"] * bool(unused)  # fmt: skip


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("more", [True, False])
def test_how_a_ledger_is_shown(monkeypatch: pytest.MonkeyPatch, ran: Any, written: bool, more: bool) -> None:  # fmt: skip
    from hpushim.ledgers import reading, rendering, summary

    shown: list[Any] = []
    monkeypatch.setattr(reading, "read", lambda file: ("books", file.name))
    monkeypatch.setattr(summary, "summarize", lambda books, matrix: ("told", books))
    monkeypatch.setattr(rendering, "render", lambda told, form, everything: (told, form, everything))  # fmt: skip
    monkeypatch.setattr(output, "show_text", lambda *given: shown.append(given) or written)
    code, _, _ = ran("ledger", "--format", "html", *["--all"] * more, "notes.txt")
    assert code == (0 if written else 3)
    assert shown == [((("told", ("books", "notes.txt")), "html", more), None, Path())]
