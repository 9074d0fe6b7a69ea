"""Every sentence of a proof is said where it holds, and not where it does not: outcomes made by hand, one circumstance changed at a time."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpushim.cli import main, proofs
from hpushim.model import Report, Target
from hpushim.prove import bounds, certificate, compare, text, trial
from hpushim.prove.choose import Candidate, Choice
from hpushim.prove.compare import Comparison, Difference
from hpushim.prove.covered import Coverage, Place
from hpushim.prove.locate import Cause
from hpushim.prove.records import Process, Record, Refused
from hpushim.prove.runs import Run
from hpushim.prove.trial import Outcome, Request
from hpushim.prove.words import Command, OnCpu

ERROR = {"kind": "ValueError", "message": "no", "places": [["t.py", 9]]}
STEP = {"losses": [{"value": "1.5"}]}
BOUND = bounds.Bound("bfloat16", 10)


def run(way: str, *errors: Any, steps: int = 2, code: int | None = 0, beside: tuple[str, ...] = ()) -> Run:  # fmt: skip
    record = Record([Process(0, [STEP] * steps)], list(errors), beside=set(beside))
    return Run(way, way, ("python",), code, 1.0, "", "", record)  # type: ignore[arg-type]


def place(line: int, file: str = "t.py") -> Place:
    return Place(file, line, "HPU101", "device-literal", True)


def outcome(**changes: Any) -> Outcome:
    """Three equal runs of two steps, everything covered."""
    plain = {
        "verdict": "equal",
        "reason": "a reason",
        "migrated": Path("copy"),
        "runs": [run("cpu"), run("shim"), run("native")],
        "comparisons": [Comparison("shim", "native", 2), Comparison("cpu", "shim", 2)],
        "coverage": Coverage([place(1)]),
        "cpu": OnCpu((), "an option"),
        "on_hpu": 0.9,
        "report": Report("hpushim", Target(), ()),
    }
    return Outcome(**{**plain, **changes})


def apart(**changes: Any) -> Comparison:
    return msgspec.structs.replace(Comparison("cpu", "shim", 2, 0.1, 0.2, 0.3, bound=BOUND), **changes)  # fmt: skip


def by_hand() -> Run:
    found = run("cpu")
    found.record.processes[0].by_hand = True
    return found


FAILED = [run(way, ERROR, code=1) for way in ("cpu", "shim", "native")]
SAME = Comparison("shim", "native", 2)
ODD = msgspec.structs.replace(SAME, difference=Difference("loss", "x", 1))
#: What is changed of the plain outcome, and what is then said; each is false of the plain one.
OUTCOMES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "by hand": ({"runs": [by_hand()]}, ("over 2 backward passes",)),
    "one step": ({"comparisons": [Comparison("shim", "native", 1)]}, ("over 1 optimizer step the",)),
    "one pass": ({"runs": [by_hand()], "comparisons": [Comparison("shim", "native", 1)]}, ("over 1 backward pass the",)),
    "nothing on hpu": ({"on_hpu": 0.0}, ("NOTHING RAN ON HPU: the script did not use its device; pass the option that it needs, such as --cuda",)),
    "not distinguishable": ({"verdict": "not distinguishable"}, ("not distinguishable: over 2 optimizer steps, a reason (emulated)",)),
    "within": ({"verdict": "equal within", "comparisons": [SAME, apart()]}, ("equal within a reason (rounding in bfloat16 explains", "a step): over 2 optimizer steps the migrated copy does what the original does (emulated)", "loss 1.0e-01, gradients 2.0e-01, parameters 3.0e-01 apart at most", "(10 roundings)")),
    "within, and in float32": ({"verdict": "equal within", "comparisons": [SAME, apart(), apart(float32=True)]}, ("equal within a reason, in float32 within 3.0e-01 (rounding explains", "a step): over")),
    "within, and the same in float32": ({"verdict": "equal within", "comparisons": [SAME, apart(), msgspec.structs.replace(SAME, first="cpu", float32=True, bound=BOUND)]}, ("equal within a reason, in float32 bit for bit: over",)),
    "different": ({"verdict": "different", "comparisons": [ODD]}, ("different: a reason",)),
    "different with a cause": ({"verdict": "different", "comparisons": [ODD], "cause": Cause(3, "aten.mm", "t.py:7", "t.py", 5, "HPU101", "device-literal", "found so")}, ("different from step 3, by t.py:5, rewrite HPU101 device-literal: a reason", "shows first at t.py:7: aten.mm", "found so")),
    "different without a line": ({"verdict": "different", "comparisons": [ODD], "cause": Cause(0, "", "t.py:7")}, ("different first at t.py:7: a reason", "shows first at t.py:7\n")),
    "different from the CPU": ({"verdict": "different", "comparisons": [SAME, apart(difference=Difference("loss", "x", 1))]}, ("different from the CPU run, though both runs on hpu agree: a reason",)),
    "different from the CPU at a line": ({"verdict": "different", "comparisons": [SAME, apart(difference=Difference("loss", "x", 1))], "cause": Cause(0, "", "t.py:7")}, ("though both runs on hpu agree, first at t.py:7: a reason",)),
    "fails on hpu": ({"verdict": "different", "comparisons": [SAME, apart(difference=Difference("error", "x", 4))]}, ("different from the CPU run: in step 4 the script fails on hpu, the original and its migrated copy alike: a reason",)),
    "not proved": ({"verdict": "not proved"}, ("not proved: a reason",)),
    "not proved, failed": ({"verdict": "not proved", "runs": FAILED}, ("every run: ValueError: no at t.py:9", "each run uses a copy of the project's folder; if the script needs files outside of it, name a wider folder with --root")),
    "ends": ({"ends": "ValueError: no"}, ("; then the script fails in every run: ValueError: no",)),
    "the original fails": ({"unmigrated": "ValueError: no"}, ("; the unedited original fails on hpu: ValueError: no",)),
    "a note without a step": ({"comparisons": [Comparison("shim", "native", 0, notes=["a note"]), SAME]}, ("no step was compared\n  a note\n",)),
    "narrowed": ({"narrowed": [Refused("HPU117", "float64 is kept as float32", "t.py", 4), Refused("HPU117", "float64 is kept as float32", "u.py", 5), Refused("HPU117", "more")]}, ("a Gaudi computes in less: HPU117 float64 is kept as float32 (t.py:4 and 1 more)\n", "a Gaudi computes in less: HPU117 more\n")),
    "refused": ({"refused": [Refused("HPU118", "complex64", "t.py", 4), Refused("HPU118", "more")]}, ("; BUT A GAUDI REFUSES WHAT RAN: HPU118 complex64 at t.py:4 and 1 more", "a Gaudi refuses: HPU118 complex64 (t.py:4)", "a Gaudi refuses: HPU118 more\n")),
    "failed on hpu": ({"runs": [run("cpu"), *FAILED[1:]]}, ("both runs on hpu: ValueError: no at t.py:9",)),
    "failed in two": ({"runs": [FAILED[0], FAILED[1], run("native")]}, ("cpu and shim: ValueError: no at t.py:9",)),
    "time up": ({"runs": [run("cpu", code=None)]}, ("time up",)),
    "no loss": ({"runs": [run("cpu", steps=0)]}, ("  -  ",)),
    "no step": ({"comparisons": [Comparison("shim", "native", 0), SAME]}, ("the migrated copy against the shim's run: no step was compared",)),
    "notes": ({"comparisons": [SAME, apart(notes=["a note"])]}, ("  a note\n",)),
    "no CPU": ({"cpu": None}, ("no run on the CPU: --no-cpu",)),
    "no step on the CPU": ({"comparisons": [SAME]}, ("the run on the CPU (an option) made no step: pass the script's option for the CPU with --cpu-args",)),
    "CPU fails": ({"comparisons": [SAME], "runs": [FAILED[0], run("shim"), run("native")]}, ("the original does not run on the CPU (an option), so only the runs on hpu are compared; pass its option for the CPU with --cpu-args",)),
    "a copy on the CPU": ({"comparisons": [SAME, Comparison("cpu", "copy", 2)]}, ("the migrated copy on the CPU",)),
    "on CUDA": ({"comparisons": [SAME, Comparison("cuda", "cuda-copy", 2)]}, ("the migrated copy on CUDA against the original's run on CUDA",)),
    "numbers": ({"comparisons": [msgspec.structs.replace(SAME, numbers=3), SAME]}, ("numbers of the output and the logs compared, by their text: 3",)),
    "exit code": ({"runs": [run(way, code=3) for way in ("cpu", "shim", "native")]}, ("the script itself ends with exit code 3 in every run",)),
    "written": ({"written": ["a.txt"]}, ("CHANGED IN YOUR PROJECT during the runs: a.txt",)),
    "beside": ({"runs": [run("cpu", beside=("lib.py",))]}, ("loaded from outside of the project and not migrated: lib.py; name a wider folder with --root",)),
    "no rewrites": ({"coverage": Coverage()}, ("rewrites: none, the script needs no change",)),
    "some ran": ({"coverage": Coverage([place(1)], [place(2), place(3, "b.py")], [place(4)], [place(5)], ["b.py", "c.py"])}, ("rewrites that ran: 1 of 3 (33%); of the 2 in files that were loaded 50%", "did not run and are therefore not proved:\n  t.py:2 HPU101 device-literal\n", "findings whose line ran:\n  t.py:4", "findings whose line did not run:\n  t.py:5", "files that were never loaded (rewrites in them): b.py (1), c.py")),
    "many did not run": ({"coverage": Coverage([], [place(n) for n in range(20)], files_not_loaded=[f"{n}.py" for n in range(15)])}, ("  and 8 more", " and 3 more")),
}  # fmt: skip
#: Said of every proof.
ALWAYS = ("again: again", "Everything on hpu was emulated on the CPU: this shows", "its own numerics, memory limits or asynchrony.")  # fmt: skip
PLAIN = (
    "equal: over 2 optimizer steps the migrated copy does what the original does, bit for bit (emulated)\n",
    "the migrated copy against the shim's run: bit for bit",
    "the shim's run against the CPU run: bit for bit",
    "compute operators on hpu: 90.0%",
    "rewrites that ran: 1 of 1 (100%)\n",
)


@pytest.mark.parametrize("what", OUTCOMES)
def test_each_sentence_is_said_where_it_holds_and_only_there(what: str) -> None:
    plain = text.text(outcome(), "again")
    assert all(words in plain for words in (*ALWAYS, *PLAIN))
    changes, said = OUTCOMES[what]
    changed = text.text(outcome(**changes), "again")
    assert all(words in changed for words in (*ALWAYS, *said)), changed
    assert not [words for words in said if words in plain]


def test_operators_that_were_not_counted_are_not_told() -> None:
    assert "compute operators" not in text.text(outcome(on_hpu=None), "again")


def test_what_became_of_unsafe_rewrites() -> None:
    candidates = [Candidate("t.py", 3, "HPU201", "scaler", "kept"), Candidate("t.py", 5, "HPU202", "cast", "taken back", "it differs")]  # fmt: skip
    said = text.chosen(Choice(outcome(), candidates, 4, 12.0)).splitlines()
    assert said[0] == PLAIN[0].strip()
    assert (
        said[1]
        == "unsafe rewrites: 1 kept, 1 taken back, 0 not tested, 0 did not run; 4 runs, 12 s"
    )
    assert [line.split() for line in said[2:]] == [["kept", "t.py:3", "HPU201", "scaler"], ["taken", "back", "t.py:5", "HPU202", "cast:", "it", "differs"]]  # fmt: skip


def test_no_sentence_is_without_a_case() -> None:
    """Each piece of text of three words that the module holds is in one of the texts above."""
    said = "".join(text.text(outcome(**changes), "again") for changes, _ in OUTCOMES.values())
    said += text.text(outcome(), "again") + text.chosen(Choice(outcome(), [], 1, 1.0))
    tree = ast.parse(inspect.getsource(text))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    held = [n.value.strip("\n") for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docs]  # fmt: skip
    sentences = [words for words in held if len(words.split()) >= 3 and words not in ("run", " ")]
    assert len(sentences) > 25
    assert [words for words in sentences if words not in said] == []


# -- what two runs differ in ----------------------------------------------------------------------


def norm(**changes: Any) -> dict[str, Any]:
    return {"norm": "2.0", "bits": 7, "count": 1, "kinds": {"float32 on hpu": 1}, **changes}


def step(**changes: Any) -> dict[str, Any]:
    loss = {"value": "1.0", "dtype": "float32", "device": "hpu", "place": ["t.py", 5]}
    return {"step": 2, "optimizer": 0, "rank": None, "rates": [0.1], "losses": [loss], "gradients": norm(), "parameters": norm(), "marks": [1, 1, 1], "place": ["t.py", 6], "names": {"a": "float32"}, "without": [], **changes}  # fmt: skip


LOSS = step()["losses"][0]
OTHER_KIND = norm(kinds={"float32 on cpu": 1})
#: A change of the second run's step; the kind of difference and its words, on the same device.
STEPS: dict[str, tuple[dict[str, Any], str, str]] = {
    "optimizer": ({"optimizer": 1}, "optimizer", "optimizer 1 stepped, 0 expected"),
    "backward": ({"losses": [LOSS, LOSS]}, "backward", "backward ran 2 times, 1 expected"),
    "loss": ({"losses": [{**LOSS, "value": "1.1"}]}, "loss", "loss 1.1, 1 expected (9.1e-02 apart, rounding explains"),
    "loss's dtype": ({"losses": [{**LOSS, "dtype": "bfloat16"}]}, "loss", "the loss is bfloat16 on hpu, float32 on hpu expected"),
    "loss's device": ({"losses": [{**LOSS, "device": "cpu"}]}, "loss", "the loss is float32 on cpu, float32 on hpu expected"),
    "gradients": ({"gradients": norm(norm="2.1")}, "gradients", "norm of the gradients 2.1 of 1 tensors, 2 of 1 expected"),
    "fewer gradients": ({"gradients": norm(count=0)}, "gradients", "norm of the gradients 2 of 0 tensors, 2 of 1 expected"),
    "parameters": ({"parameters": norm(norm="2.1")}, "parameters", "norm of the parameters 2.1 of 1 tensors, 2 of 1 expected"),
    "a parameter is away": ({"parameters": OTHER_KIND, "names": {}}, "parameters", "parameter a is not in the optimizer"),
    "a parameter more": ({"parameters": OTHER_KIND, "names": {"a": "float32", "b": "x"}}, "parameters", "parameter b is also in the optimizer"),
    "a parameter's kind": ({"parameters": OTHER_KIND, "names": {"a": "bfloat16"}}, "parameters", "parameter a is bfloat16, float32 expected"),
    "kinds alone": ({"parameters": OTHER_KIND}, "parameters", "the optimizer's parameters are 1 in float32 on cpu; 1 in float32 on hpu expected"),
    "no gradient": ({"without": ["a", "b"]}, "gradients", "parameter a (and 1 more) has no gradient"),
    "rate": ({"rates": [0.2]}, "rate", "learning rates [0.2], [0.1] expected"),
    "another rate": ({"rates": [0.1, 0.1]}, "rate", "learning rates [0.1, 0.1], [0.1] expected"),
    "no mark, step": ({"marks": [0, 1, 1]}, "marks", "no mark_step behind the optimizer's step: in lazy mode the work of several steps would gather there"),
    "no mark, passes": ({"marks": [1, 0, 1]}, "marks", "no mark_step between two backward passes"),
    "no mark, between": ({"marks": [1, 1, 0]}, "marks", "no mark_step between backward and the optimizer's step"),
}  # fmt: skip


def difference(one: dict[str, Any], other: dict[str, Any], same: bool = True) -> Difference | None:
    runs = [Run("shim", "run", ("python",), 0, 1.0, "", "", Record([Process(0, [s])])) for s in (one, other)]  # fmt: skip
    return compare.compare(runs[0], runs[1], same_device=same).difference


@pytest.mark.parametrize("what", STEPS)
def test_each_difference_of_a_step_is_told_in_its_words(what: str) -> None:
    changes, kind, words = STEPS[what]
    found = difference(step(), step(**changes))
    assert found is not None and found.kind == kind and words in found.what, found
    assert difference(step(**changes), step(**changes)) is None, "the same in both runs"


def test_a_gradient_that_was_not_expected() -> None:
    found = difference(step(without=["a"]), step())
    assert found is not None and found.what == "parameter a has a gradient, none expected"


@pytest.mark.parametrize("what", ["loss's dtype", "loss's device", "kinds alone", "no mark, step"])
def test_what_two_devices_may_differ_in(what: str) -> None:
    assert difference(step(), step(**STEPS[what][0]), same=False) is None


REFUSED = [Refused("HPU118", "complex64", "t.py", 4)]
#: Verdict → the status that says so, and that with what a Gaudi refuses, where that was asked for.
STATUS = {"equal": (0, 5), "equal within": (0, 5), "different": (1, 1), "not proved": (3, 3), "not distinguishable": (3, 3)}  # fmt: skip


@pytest.fixture
def proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The status of the command where the proof comes out as given."""

    def proved(*words: str, **changes: Any) -> int:
        monkeypatch.setattr(trial, "prove", lambda *_: outcome(**changes))
        return main(["prove", *words, "t.py"])

    (tmp_path / "t.py").write_text("import torch\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(certificate, "certificate", lambda *_: None)
    monkeypatch.setattr(proofs, "write", lambda *_: None)
    return proved


@pytest.mark.parametrize("verdict", STATUS)
def test_the_status_says_what_the_first_line_says(verdict: str, proved: Callable[..., int]) -> None:
    for refused in ([], REFUSED):
        for words in ([], ["--fail-on", "refused"]):
            asked = STATUS[verdict][bool(refused and words)]
            assert proved(*words, verdict=verdict, refused=refused) == asked, (refused, words)


@pytest.mark.parametrize(("covered", "under", "said"), [(1, "50", False), (1, "51", True), (2, "100", False), (0, "0", False)])  # fmt: skip
@pytest.mark.parametrize("verdict", ["equal", "not proved"])
def test_too_small_a_share_of_the_rewrites_is_said_and_fails(
    covered: int, under: str, said: bool, verdict: str, proved: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    places = [place(1), place(2)]
    ran = Coverage(places[:covered], places[covered:])
    status = proved("--fail-under", under, verdict=verdict, coverage=ran)
    assert ("--fail-under requires" in capsys.readouterr().err) is said
    assert status == (3 if verdict == "not proved" else 1 if said else 0)


@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
def test_what_happened_on_cuda_is_told_where_the_style_keeps_it(style: Any) -> None:
    found = outcome(
        cuda="run on a card",
        comparisons=[msgspec.structs.replace(SAME, bound=BOUND)],
        report=Report("hpushim", Target(style=style), ()),
    )
    kept = certificate.certificate(Request(command=Command((), "t.py", ()), target=Target(style=style)), found, "again")  # fmt: skip
    assert kept.cuda == "run on a card"
    told = [text.text(found, "again"), certificate.page(kept)]
    assert ["CUDA: run on a card" in one for one in told] == [style != "native"] * 2
