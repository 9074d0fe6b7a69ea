"""The parts of a proof that need no run of torch: words, copies, bounds, comparison, hunks, coverage, what is recorded."""

from __future__ import annotations

import json
import math
import os
import sys
import types
from pathlib import Path
from typing import Any

import msgspec
import pytest
import warm
from steps_by_hand import NORM
from steps_by_hand import loss as _loss
from steps_by_hand import run as _run
from steps_by_hand import step as _step

from hpushim.model import Target
from hpushim.prove import (
    bounds,
    certificate,
    copies,
    covered,
    hunks,
    locate,
    trial,
    verdicts,
    words,
)
from hpushim.prove import compare as compare_module
from hpushim.prove.compare import Comparison, _odd_collective, compare, first_operator
from hpushim.prove.records import Process, Record, read
from hpushim.prove.runs import STARTUP, Run, failure

pytestmark = pytest.mark.usefixtures("served")

OPTIONS = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--cuda", action="store_true")
p.add_argument("--epochs", type=int)
{more}
"""


@pytest.mark.parametrize(
    ("args", "more", "expected"),
    [
        (("--device", "cuda:1"), "", ("--device", "cpu")),
        (("trainer.device=cuda",), "", ("trainer.device=cpu",)),
        (("--backend", "nccl", "--device=cuda"), "", ("--backend", "gloo", "--device=cpu")),
        (("--cuda", "--epochs", "1"), "", ("--epochs", "1")),
        ((), 'p.add_argument("--no-cuda", action="store_true")', ("--no-cuda",)),
        ((), 'p.add_argument("--use_cpu", action="store_true")', ("--use_cpu",)),
        ((), 'p.add_argument("--device", default="cuda")', ("--device", "cpu")),
        (("--data", "cuda.txt"), "", ("--data", "cuda.txt")),
    ],
)
def test_the_cpu_run_is_found_from_values_and_options(
    args: tuple[str, ...], more: str, expected: tuple[str, ...]
) -> None:
    assert words.on_cpu(args, OPTIONS.format(more=more)).args == expected


@pytest.mark.parametrize("option", ["--device", "--run-device", "--accelerator", "--device_type"])
@pytest.mark.parametrize("more", ["type=int", "default=0, type=int", "type=int, nargs='+', default=[-1]", "type=float"])  # fmt: skip
@pytest.mark.parametrize("other", ["", 'p.add_argument("--no-cuda", action="store_true")'])
def test_the_number_of_a_card_is_no_word_for_the_cpu(option: str, more: str, other: str) -> None:
    source = OPTIONS.format(
        more=f'p.add_argument("{option}", {more})\n{other}\ntorch.cuda.is_available()'
    )
    found = words.on_cpu((), source)
    assert found.args == (("--no-cuda",) if other else ())
    assert other or "own check" in found.why


def test_what_the_user_tells_comes_first() -> None:
    found = words.on_cpu(("--device", "cuda"), "", ("--fp32",))
    assert found.args == ("--device", "cpu", "--fp32")


def test_the_migrated_copy_is_told_hpu() -> None:
    given = ("--device", "cuda:1", "x=cuda", "--backend", "nccl", "cudalike")
    assert words.on_hpu(given) == ("--device", "hpu:0", "x=hpu", "--backend", "hccl", "cudalike")


@pytest.mark.parametrize("name", ["trainer", "--trainer", "hydra/launcher", "task.setup"])
@pytest.mark.parametrize("option", ["accelerator", "trainer.accelerator", "--accelerator", "+device", "--run_device"])  # fmt: skip
def test_a_choice_of_files_keeps_its_name_in_the_migrated_copy(name: str, option: str) -> None:
    assert words.on_hpu((f"{name}=gpu", f"{option}=gpu")) == (f"{name}=gpu", f"{option}=hpu")
    assert words.on_cpu((f"{name}=gpu",), "").args == (f"{name}=cpu",)


def test_a_launcher_is_split_at_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    found = words.parse(("torchrun", "--nproc-per-node", "2", "train.py", "--x", "1"))
    assert (found.script, found.args, found.processes) == ("train.py", ("--x", "1"), 2)
    with pytest.raises(ValueError, match="no Python script"):
        words.parse(("torchrun", "--nproc-per-node=2"))


def test_bounds_grow_with_roundings_and_narrow_formats() -> None:
    few, many = bounds.limit(10, 2.0**-24), bounds.limit(1000, 2.0**-24)
    assert 0 < few < many < 1e-4
    assert bounds.limit(10, 2.0**-8) > 1000 * few
    assert bounds.limit(10**9, 2.0**-8) == 1.0


def test_what_operators_gave_sets_the_bound_and_the_count_of_devices() -> None:
    def ran(*results: tuple[str, str, int]) -> Process:
        process = Process(0, [])
        operators = [["aten.mm.default", [[kind, device, [2, 2]]], ["t.py", 4], length, [device]] for kind, device, length in results]  # fmt: skip
        process.operators[1] = {"operators": operators, "collectives": []}
        return process

    plain = ran(("float32", "hpu", 50), ("float32", "cpu", 7), ("int64", "hpu", 9))
    narrow = ran(("float32", "hpu", 50), ("bfloat16", "hpu", 9))
    assert bounds.of([plain]) == bounds.Bound("float32", 57)
    assert bounds.of([narrow]) == bounds.Bound("bfloat16", 1)
    assert bounds.of([narrow], narrowest=False) == bounds.Bound("float32", 50)
    assert Record([plain, narrow]).devices() == {"hpu": 4, "cpu": 1}
    assert Record([]).devices() == {}


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"losses": _loss(1.1)}, "loss"),
        ({"losses": _loss(math.nan)}, "loss"),
        ({"losses": _loss(1.0) * 2}, "backward"),
        ({"optimizer": 1}, "optimizer"),
        ({"options": [{"betas": [0.9, 0.95], "nesterov": False}]}, "optimizer"),
        ({"options": [{"betas": [0.9, 0.99], "nesterov": True}]}, "optimizer"),
        ({"gradients": {**NORM, "bits": 8, "each": [[1.6, 0.0], [1.2, 0.0]]}}, "gradients"),
        ({"gradients": {**NORM, "bits": 8, "each": [[1.2, 0.0], [1.6, 0.1]]}}, "gradients"),
        ({"gradients": {"norm": "2.1", "bits": 8, "count": 1, "kinds": {}}}, "gradients"),
        (
            {"parameters": {"norm": "2.0", "bits": 7, "count": 1, "kinds": {"float32 on cpu": 1}}},
            "parameters",
        ),
        ({"rates": [0.2]}, "rate"),
        ({"marks": [1, 0, 0]}, "marks"),
    ],
)
def test_the_first_step_that_differs_is_told(changed: dict[str, Any], kind: str) -> None:
    first = _run(_step(1), _step(2), _step(3))
    second = _run(_step(1), _step(2, **changed), _step(3, losses=_loss(5)))
    found = compare(first, second, same_device=True)
    assert found.difference is not None
    assert (found.difference.kind, found.difference.step) == (kind, 2)


def test_only_steps_that_are_not_equal_to_the_bit_add_roundings() -> None:
    def steps(value: float, bits: int) -> list[dict[str, Any]]:
        return [*(_step(n) for n in range(1, 10)), _step(10, losses=_loss(value), gradients={**NORM, "bits": bits})]  # fmt: skip

    limit = compare(_run(*steps(1.0, 7)), _run(*steps(1.0, 7)), same_device=True).bound
    assert limit is not None
    for far, found in ((0.5, None), (3, "loss")):
        second = _run(*steps(1.0 + far * limit.at(1), 8))
        pair = compare(_run(*steps(1.0, 7)), second, same_device=True)
        assert (pair.difference and pair.difference.kind) == found
        assert (pair.steps, pair.apart) == (10, 1)


@pytest.mark.parametrize(
    ("apart", "again", "wide"),
    [
        ({"loss": 6e-4, "gradients": 0.32}, {}, 0),
        ({"loss": 6e-4, "gradients": 0.32}, {"gradients": 1e-6, "exact": False}, 1),
        ({"loss": 6e-4, "gradients": 0.32}, None, 1),
        ({"loss": 6e-4, "gradients": 0.1}, {"gradients": 1e-6, "exact": False}, 0),
        ({"loss": 0.03, "gradients": 0.1}, {}, 1),
        ({"parameters": 0.03}, {}, 1),
        ({"loss": 6e-4, "gradients": 0.32}, {"gradients": 0.32, "exact": False}, 2),
    ],
)
def test_small_gradients_may_be_apart_in_bfloat16_where_float32_gives_the_same_bits(
    apart: dict[str, float], again: dict[str, Any] | None, wide: int
) -> None:
    narrow = Comparison("cpu", "native", 2, bound=bounds.Bound("bfloat16", 600), exact=False, apart=2, **apart)  # fmt: skip
    pairs = [narrow]
    if again is not None:
        pairs.append(Comparison("cpu", "native", 2, bound=bounds.Bound("float32", 600), float32=True, **again))  # fmt: skip
    assert len(verdicts._too_wide(pairs)) == wide


@pytest.mark.parametrize(
    "draw",
    [
        "numpy.random.rand(3)",
        "numpy.random.default_rng().random(3)",
        "numpy.random.Generator(numpy.random.PCG64(numpy.random.SeedSequence())).random(3)",
        "numpy.random.default_rng(numpy.random.SeedSequence().spawn(2)[1]).random(3)",
        "numpy.random.SeedSequence(5, spawn_key=(1,)).generate_state(3)",
    ],
)
def test_what_takes_its_seed_from_the_system_has_the_run_s(
    draw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy = pytest.importorskip("numpy")
    from hpushim.prove.recorder import enable

    base = numpy.random.SeedSequence
    before = numpy.random.get_state()
    found = []
    for seed in (7, 7, 8):
        with monkeypatch.context() as patched:
            for name in ("default_rng", "SeedSequence"):
                patched.setattr(numpy.random, name, getattr(numpy.random, name))
            enable._seed_numpy(numpy, types.SimpleNamespace(seed=seed))  # type: ignore[arg-type]
            assert isinstance(base(3), numpy.random.SeedSequence)
            assert isinstance(numpy.random.SeedSequence(), base)
            found.append(eval(draw).tolist())
    numpy.random.set_state(before)
    assert found[0] == found[1]
    assert (found[0] == found[2]) == ("(5," in draw)


def test_marks_are_asked_for_only_where_training_is_on_hpu() -> None:
    norm = {"norm": "2.0", "bits": 7, "count": 1, "kinds": {"float32 on cpu": 1}}
    on_cpu = {"gradients": norm, "parameters": norm}
    first = _run(_step(1, **on_cpu), _step(2, **on_cpu))
    second = _run(_step(1, **on_cpu), _step(2, **on_cpu, marks=[0, 0, 0]))
    assert compare(first, second, same_device=True).difference is None


@pytest.mark.parametrize("optimizers", [2, 3])
@pytest.mark.parametrize(
    ("between", "last", "found"), [(1, 1, None), (0, 1, None), (1, 0, "marks"), (0, 0, "marks")]
)
def test_optimizers_that_step_one_after_another_need_one_mark(
    optimizers: int, between: int, last: int, found: str | None
) -> None:
    """The shim marks behind each of them, a migrated copy behind the last."""

    def steps(between: int, last: int) -> list[dict[str, Any]]:
        made = []
        for number in range(3 * optimizers):
            which = number % optimizers
            before = between if which else last
            lost: dict[str, Any] = {} if which == 0 else {"losses": []}
            marks = [before, 0, 0 if which else 1]
            made.append(_step(number + 1, optimizer=which, marks=marks, **lost))
        return made

    pair = compare(_run(*steps(1, 1)), _run(*steps(between, last)), same_device=True)
    assert (pair.difference and pair.difference.kind) == found
    if pair.difference:
        assert pair.difference.step == optimizers + 1


def test_one_optimizer_that_steps_twice_needs_a_mark_between() -> None:
    first = _run(_step(1), _step(2, losses=[]))
    second = _run(_step(1), _step(2, losses=[], marks=[0, 0, 1]))
    found = compare(first, second, same_device=True).difference
    assert found is not None and found.kind == "marks"


def test_a_mark_that_a_library_s_own_loop_lacks_is_a_note() -> None:
    first = _run(_step(1), _step(2))
    second = _run(_step(1), _step(2, marks=[0, 0, 0], loop="looplib/trainer.py"))
    found = compare(first, second, same_device=True)
    assert found.difference is None
    (note,) = (one for one in found.notes if "behind the optimizer's step" in one)
    assert "looplib/trainer.py" in note and "PT_HPU_LAZY_MODE=0" in note


def test_a_run_that_never_came_to_its_optimizer_is_told_by_its_end() -> None:
    first, second = _run(_step(1), _step(2)), _run(_step(1), code=1)
    second.record.processes[0].by_hand = True
    second.record.errors.append({"kind": "NameError", "message": "scaler", "places": [["t.py", 9]]})
    found = compare(first, second, same_device=True).difference
    assert found is not None
    assert (found.kind, found.step, found.place) == ("error", 1, ("t.py", 9))


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("fails", [True, False])
def test_a_process_that_fails_is_told_by_its_error(fails: bool, steps: int) -> None:
    """Of the others it says no more than that one is missing."""
    first, second = _run(_step(1)), _run(*[_step(1)][:steps], code=1)
    first.record.processes.append(Process(1, [_step(1)]))
    if fails:
        second.record.errors.append({"kind": "ValueError", "message": "device_ids", "places": [["t.py", 9]]})  # fmt: skip
    found = compare(first, second, same_device=True).difference
    assert found is not None
    assert (found.kind, found.place) == (("error", ("t.py", 9)) if fails else ("processes", None))


@pytest.mark.parametrize("first", ["0", "1", "-"])
def test_of_several_processes_the_first_error_is_that_of_the_run(
    first: str, tmp_path: Path
) -> None:
    """The others fail for want of the one that is gone."""
    for rank in ("-", "0", "1"):
        kind, when = ("ValueError", 1.0) if rank == first else ("RuntimeError", 2.0)
        places = [] if rank == "-" else [["t.py", int(rank) + 1]]
        event = {"event": "error", "kind": kind, "message": "no", "places": places, "when": when}
        (tmp_path / f"{rank}.9.jsonl").write_text(json.dumps(event) + "\n")
    told = failure(msgspec.structs.replace(_run(), record=read(tmp_path)))
    assert told is not None
    named = first if first != "-" else "0"  # a launcher's error names no line
    assert told["places"] == [["t.py", int(named) + 1]]
    assert told["kind"] == ("ValueError" if named == first else "RuntimeError")


@pytest.mark.parametrize("done", [0, 1, 2, 3])
@pytest.mark.parametrize("later", [True, False])
def test_of_two_runs_that_fail_the_earlier_error_is_the_difference(later: bool, done: int) -> None:
    first, second = _run(_step(1), _step(2), code=1), _run(*map(_step, range(1, done + 1)), code=1)
    error = {"kind": "ValueError", "message": "no", "places": [["t.py", 9]]}
    second.record.errors.append(error)
    if later:
        first.record.errors.append({**error, "kind": "OSError"})
    found = compare(first, second, same_device=True).difference
    if done < 2 or not later:
        assert found is not None and (found.kind, found.step) == ("error", done + 1)
    else:
        assert found is None or found.kind == "steps"


@pytest.mark.parametrize("hpu", [(0, 0), (1, 2), (2, 1), (2, 2), (3, 0)])
@pytest.mark.parametrize("ends", ["OSError", "ValueError", None])
@pytest.mark.parametrize("fails", [True, False])
def test_a_cpu_run_that_fails_later_than_both_on_hpu_is_a_reference(
    ends: str | None, hpu: tuple[int, int], fails: bool
) -> None:
    def run(steps: int, kind: str | None) -> Run:
        found = _run(*map(_step, range(1, steps + 1)), code=1 if kind else 0)
        if kind:
            found.record.errors.append({"kind": kind, "message": "no", "places": [["t.py", 9]]})
        return found

    on_hpu = [run(steps, "ValueError" if fails else None) for steps in hpu]
    alike = fails and ends == "ValueError"
    expected = ends is None or alike or (fails and max(hpu) < 2)
    assert verdicts.usable(run(2, ends), *on_hpu) is expected
    assert not verdicts.usable(run(0, ends), *on_hpu)


@pytest.mark.parametrize(
    ("errors", "said", "alike"),
    [
        ((["E", "no", 1],), "E: no", [True, True, True, False, False, False]), ((["E", "no", 2],), "E: no", [True, True, False, False, False, False]), ((["E", "other", 1],), "E: other", [True, False, True, False, False, False]),
        ((["F", "no", 1],), "F: no", [False, False, False, True, False, False]), ((), "exit code 1, last", [False, False, False, False, True, False]), (None, "exit code 2", [False, False, False, False, False, True]),
    ],
)  # fmt: skip
def test_how_a_run_ended_and_which_end_alike(errors: Any, said: str, alike: list[bool]) -> None:
    def run(errors: Any) -> Run:
        found = _run(code=1 if errors is not None else 2)
        found = msgspec.structs.replace(
            found, errors="first\nlast\n\n" if errors is not None else " "
        )
        for kind, message, line in errors or ():
            found.record.errors.append({"kind": kind, "message": message, "places": [["a.py", 7], ["t.py", line]]})  # fmt: skip
        return found

    others = [
        (["E", "no", 1],),
        (["E", "no", 2],),
        (["E", "other", 1],),
        (["F", "no", 1],),
        (),
        None,
    ]
    assert verdicts.failed(run(errors)) == said
    assert [verdicts._fail_alike(run(errors), run(other)) for other in others] == alike


@pytest.mark.parametrize(("ours", "theirs", "found"), [("ab", "ab", (None, None)), ("ab", "a", (None, 2)), ("ab", "x", (None, 1)), ("a", "ab", (2, None)), ("ab", "ax", (2, None)), ("", "a", (1, None)), ("a", "", (None, 1))])  # fmt: skip
def test_the_first_collective_that_only_one_run_has(ours: str, theirs: str, found: tuple[int | None, int | None]) -> None:  # fmt: skip
    runs = [[{"name": name, "bytes": 4, "group": 2, "place": ["t.py", n]} for n, name in enumerate(names, 1)] for names in (ours, theirs)]  # fmt: skip
    wanted = tuple(None if line is None else ("t.py", line) for line in found)
    for same in (True, False):
        assert _odd_collective(*runs, same) == wanted


def test_the_same_operators_give_the_same_bits() -> None:
    operators = [["aten.mm.default", [["float32", "hpu", [2, 2]]], ["t.py", 4], 2, ["hpu"]]]

    def run(bits: int, *more: Any) -> Run:
        norm = {"norm": "2.0", "bits": bits, "count": 1, "kinds": {"float32 on hpu": 1}}
        found = _run(_step(1, parameters=norm))
        found.record.processes[0].operators[1] = {
            "operators": [*operators, *more],
            "collectives": [],
        }
        return found

    assert compare(run(7), run(7), same_device=True).difference is None
    other = compare(run(7), run(8), same_device=True).difference
    assert other is not None
    assert other.kind == "bits"
    # With another operator, the last bits may differ.
    fused = ["aten.addmm.default", [["float32", "hpu", [2, 2]]], ["t.py", 4], 2, ["hpu"]]
    ran = "aten.addmm.default ran"
    differs, equal = (compare(run(7), run(bits, fused), same_device=True) for bits in (8, 7))
    assert differs.difference is equal.difference is None
    assert differs.notes == [f"step 1: {ran}, which the reference run does not do"]
    assert equal.notes == [f"step 1: the copy computes the same values differently: {ran} (t.py:4)"]


def test_an_argument_on_the_host_is_a_difference() -> None:
    def run(*given: str) -> Run:
        found = _run(_step(1))
        operator = ["aten.mm.default", [["float32", "hpu", [2, 2]]], ["t.py", 4], 2, [*given]]
        found.record.processes[0].operators[1] = {"operators": [operator], "collectives": []}
        return found

    found = compare(run("hpu"), run("cpu", "hpu"), same_device=True).difference
    assert found is not None
    assert (found.kind, found.place) == ("device", ("t.py", 4))
    assert compare(run("cpu"), run("hpu"), same_device=False).difference is None


def test_what_only_the_original_does_is_blamed_on_its_line() -> None:
    first = _run(_step(1), _step(2, place=["t.py", 7]))
    fewer = compare(first, _run(_step(1)), same_device=True).difference
    assert fewer is not None and fewer.missing == ("t.py", 7)
    none = compare(_run(_step(1)), _run(_step(1, losses=[])), same_device=True).difference
    assert none is not None and (none.kind, none.missing) == ("backward", None)
    twice = [{**_loss(1.0)[0], "place": ["t.py", n]} for n in (3, 5)]
    once = compare(_run(_step(1, losses=twice)), _run(_step(1)), same_device=True).difference
    assert once is not None and (once.kind, once.missing) == ("backward", ("t.py", 5))

    def run(*sizes: int) -> Run:
        found = _run(_step(1))
        sent = [{"name": "all_reduce", "bytes": n, "group": 2, "place": ["t.py", n]} for n in sizes]
        found.record.processes[0].operators[1] = {"operators": [], "collectives": sent}
        return found

    lost = compare(run(4, 8, 4), run(4, 4), same_device=True).difference
    assert lost is not None and (lost.kind, lost.missing) == ("collective", ("t.py", 8))
    more = compare(run(4, 4), run(4, 8, 4), same_device=True).difference
    assert more is not None and (more.place, more.missing) == (("t.py", 8), None)


def test_a_line_that_still_names_cuda_has_repairs() -> None:
    assert hunks.repaired("from torch.cuda.amp import autocast\n") == [
        "from torch.hpu.amp import autocast\n",
        "from torch.amp import autocast\n",
    ]
    assert hunks.repaired('dist.init_process_group("nccl")') == ['dist.init_process_group("hccl")']
    assert hunks.repaired('kinds = {"half": torch.half}[kind]') == [
        'kinds = {"bfloat16": torch.bfloat16}[kind]',
        'kinds = {"half": torch.bfloat16}[kind]',
    ]
    assert hunks.is_left('x.to("cuda:1")') and not hunks.is_left("x = 1  # cuda")


def test_equal_runs_are_equal_and_fewer_steps_are_not() -> None:
    first = _run(_step(1), _step(2))
    assert compare(first, _run(_step(1), _step(2)), same_device=True).difference is None
    fewer = compare(first, _run(_step(1)), same_device=True).difference
    assert fewer is not None
    assert fewer.kind == "steps"
    failed = compare(first, _run(_step(1), _step(2), code=1), same_device=True).difference
    assert failed is not None
    assert failed.kind == "exit"


def test_a_run_whose_time_was_up_before_its_first_step_is_no_difference() -> None:
    late = msgspec.structs.replace(_run(), code=None)
    assert compare(_run(code=1), late, same_device=True).difference is None
    hung = msgspec.structs.replace(_run(_step(1)), code=None)
    found = compare(_run(_step(1)), hung, same_device=True).difference
    assert found is not None
    assert found.kind == "exit"


def test_whether_a_checkpoint_is_saved_may_hang_on_rounding() -> None:
    saved = [{"file": "best.pt", "step": 1, "leaves": {".w": ["1.0", 3, "torch.float32", [2]]}}]
    found = compare(_run(_step(1), saved=saved), _run(_step(1)), same_device=False)
    assert found.difference is None
    assert (
        "0 checkpoints saved, 1 expected: a decision to save may depend on rounding" in found.notes
    )
    later = [{**saved[0], "step": 2, "leaves": {".w": ["9.0", 3, "torch.float32", [2]]}}]
    first, second = _run(_step(1), _step(2), saved=saved), _run(_step(1), _step(2), saved=later)
    assert compare(first, second, same_device=False).difference is None
    assert compare(first, second, same_device=True).difference is not None


def test_checkpoints_are_compared_leaf_by_leaf() -> None:
    def saved(norm: str, dtype: str = "torch.float32") -> list[Any]:
        return [{"file": "a.pt", "step": 1, "leaves": {".w": [norm, 3, dtype, [2]]}}]

    first = _run(_step(1), saved=saved("1.0"))
    same = compare(first, _run(_step(1), saved=saved("1.0")), same_device=True)
    assert same.difference is None
    for other in (saved("2.0"), saved("1.0", "torch.bfloat16"), []):
        found = compare(first, _run(_step(1), saved=other), same_device=True).difference
        assert found is not None
        assert found.kind == "checkpoint"


@pytest.mark.parametrize(
    "wrapper", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."]
)
@pytest.mark.parametrize("place", [".", ".model.", ".state.0.", ".net.module."])
@pytest.mark.parametrize("other", [{}, {".epoch": ["2"]}, {".optimizer.state.0.step": ["2.0", 1, "torch.float32", []]}])  # fmt: skip
@pytest.mark.parametrize("norm", ["1.0", "9.0"])
def test_a_wrapper_on_one_device_is_no_other_checkpoint(
    wrapper: str, place: str, other: dict[str, Any], norm: str
) -> None:
    def saved(before: str, norm: str) -> Run:
        leaves = {f"{place}{before}{name}": [norm, 3, "torch.float32", [2]] for name in ("0.w", "0.b")}  # fmt: skip
        return _run(_step(1), saved=[{"file": "a.pt", "step": 1, "leaves": {**leaves, **other}}])

    for pair in ((saved("", "1.0"), saved(wrapper, norm)), (saved(wrapper, "1.0"), saved("", norm))):  # fmt: skip
        found = compare(*pair, same_device=False)
        assert (found.difference is None) == (norm == "1.0")
        assert "inside a wrapper" in found.notes[0]
        if found.difference:
            assert "has norm 9" in found.difference.what
        on_one = compare(*pair, same_device=True).difference
        assert on_one is not None
        assert "entries differ" in on_one.what


@pytest.mark.parametrize(
    ("dtype", "same_device", "kind"),
    [
        ("torch.uint8", False, None),
        ("torch.uint8", True, "checkpoint"),
        ("torch.float32", False, "checkpoint"),
    ],
)
def test_a_card_s_random_state_is_more_than_the_cpu_s_checkpoint_holds(
    dtype: str, same_device: bool, kind: str | None
) -> None:
    leaves = {".w": ["1.0", 3, "torch.float32", [2]]}
    more = {**leaves, ".hpu_seed": ["9.0", 3, dtype, [16]]}
    first = _run(_step(1), saved=[{"file": "a.pt", "step": 1, "leaves": leaves}])
    second = _run(_step(1), saved=[{"file": "a.pt", "step": 1, "leaves": more}])
    found = compare(first, second, same_device=same_device)
    assert (found.difference.kind if found.difference else None) == kind
    assert kind or any("also holds hpu_seed" in note for note in found.notes)


def test_copies_link_what_is_large_and_leave_out_histories(tmp_path: Path) -> None:
    wide = tmp_path / "wide"
    root = wide / "project"
    (root / "sub").mkdir(parents=True)
    (root / ".git").mkdir()
    (wide / "data").mkdir()
    (wide / "data" / "x.txt").write_text("x")
    (root / "train.py").write_text("print(1)\n")
    (root / "sub" / "big.bin").write_bytes(b"0" * (3 << 20))
    (root / "train.py").chmod(0o440)
    before = copies.Tree(wide)
    copy = copies.copy(root, tmp_path / "copy", wide)
    assert copy == tmp_path / "copy" / "project"
    assert (copy / "sub" / "big.bin").is_symlink()
    assert not (copy / "train.py").is_symlink()
    assert (copy / "train.py").stat().st_mode & 0o777 == 0o640, "it can be migrated"
    assert not (copy / ".git").exists()
    assert (copy / "../data/x.txt").read_text() == "x"
    assert before.changed() == []
    (wide / "data" / "x.txt").write_text("other")
    assert before.changed() == [os.path.join("data", "x.txt")]  # noqa: PTH118


def _recorded(folder: Path, script: str, lines: dict[str, list[int]]) -> tuple[int, Record, str]:
    """Runs a script of the copy below ``folder`` with the recorder, without torch."""
    at = folder / "record"
    at.mkdir()
    copy = folder / "copy"
    orders = {"at": str(at), "root": str(copy), "copy": str(copy), "tree": str(folder / "tree"), "cwd": str(copy),
              "seed": 5, "steps": 0, "window": [1, 1], "values": False, "float32": False, "lines": lines}  # fmt: skip
    (at / "orders").write_text(json.dumps(orders))
    env = {**os.environ, "PYTHONPATH": STARTUP, "HPUSHIM": "off", "HPUSHIM_PROVE": str(at / "orders")}  # fmt: skip
    done = warm.run(
        [sys.executable, script], cwd=copy, env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, read(at), done.stderr


def test_lines_files_and_errors_are_recorded(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    text = "import json\n\ndef never():\n    return 1\n\ndef twice(x):\n    y = x\n    return y * 2\n\njson.load(open('c.json'))\ntwice(2)\nraise KeyError('gone')\n"
    (copy / "a.py").write_text(text)
    (copy / "c.json").write_text("{}")
    code, record, _ = _recorded(tmp_path, "a.py", {"a.py": [3, 4, 6, 7, 8, 12]})
    assert code == 1
    assert record.lines == {("a.py", line) for line in (3, 6, 7, 8, 12)}
    assert "c.json" in record.files
    assert record.errors[0]["kind"] == "KeyError"
    assert record.errors[0]["places"][-1] == ["a.py", 12]


def test_the_users_tree_is_never_written(tmp_path: Path) -> None:
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    (tree / "data").mkdir(parents=True)
    copy.mkdir()
    (tree / "data" / "x.txt").write_text("old")
    for name in ("big.bin", "cut.bin", "gone.bin"):
        (tree / name).write_text("old")
        (copy / name).symlink_to(tree / name)
    (copy / "data").symlink_to(tree / "data")
    (copy / "a.py").write_text(
        "open('big.bin', 'a').write('more')\nopen('data/x.txt', 'w').write('new')\nopen('data/y.txt', 'w').write('new')\n"
        "import os\nos.truncate('cut.bin', 1)\nos.remove('gone.bin')\n"
        f"open({str(tree / 'z.txt')!r}, 'w')\n"
    )
    code, record, errors = _recorded(tmp_path, "a.py", {})
    assert code == 1, errors
    assert record.errors[0]["kind"] == "PermissionError"
    assert record.errors[0]["places"][-1] == ["a.py", 7]
    assert {(tree / name).read_text() for name in ("big.bin", "cut.bin", "gone.bin")} == {"old"}
    assert (tree / "data" / "x.txt").read_text() == "old"
    assert sorted(p.name for p in tree.rglob("*") if p.is_file()) == [
        "big.bin",
        "cut.bin",
        "gone.bin",
        "x.txt",
    ]
    assert (copy / "big.bin").read_text() == "oldmore"
    assert (copy / "cut.bin").read_text() == "o" and not (copy / "gone.bin").exists()
    assert (copy / "data" / "x.txt").read_text() == "new"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("open('here.txt', 'w').write('x')", set()),
        ("import tempfile\ntempfile.NamedTemporaryFile().write(b'x')", set()),
        ("open('../out.txt', 'w').write('x')", {"writes outside of its project"}),
        (
            "import socket\nsocket.create_server(('127.0.0.1', 0)).close()",
            {"listens on a socket"},
        ),
    ],
)
def test_what_a_second_run_beside_it_would_meet_is_recorded(
    script: str, expected: set[str], tmp_path: Path
) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "a.py").write_text(script)
    code, record, errors = _recorded(tmp_path, "a.py", {})
    assert code == 0, errors
    assert record.alone == expected


@pytest.mark.parametrize(
    ("launcher", "cores", "alone", "threads", "expected"),
    [
        ((), 2, set(), "1", True),
        ((), 1, set(), "1", False),
        ((), 2, set(), "2", False),
        ((), 8, {"listens on a socket"}, "1", False),
        (("torchrun",), 8, set(), "1", False),
    ],
)
def test_runs_go_on_side_by_side_only_where_neither_is_in_the_others_way(
    launcher: tuple[str, ...],
    cores: int,
    alone: set[str],
    threads: str,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    before = _run(_step(1))
    before.record.alone = alone
    command = words.Command(launcher, "train.py", ())
    assert trial._may_go_together(command, [before]) is expected
    assert not trial._may_go_together(command, [])  # nothing is known of the script
    failed = _run(_step(1))
    failed.record.errors.append({"kind": "E", "message": "", "places": []})
    assert not any(trial._may_go_together(command, [before, other]) for other in (failed, _run()))
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert not trial._may_go_together(command, [before])
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert trial._may_go_together(command, [before]) is expected
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert not trial._may_go_together(command, [before])


def test_what_only_imports_is_not_what_is_named() -> None:
    def hunk(old: str, new: str) -> hunks.Hunk:
        return hunks.Hunk("a.py", 0, 1, 0, 1, (old,), (new,))

    assert hunks.only_imports(hunk("from a import b\n", "    import c\n"))
    assert not hunks.only_imports(hunk("import a\n", "import b; b.c()\n"))
    assert not hunks.only_imports(hunk("with a:\n", "with b:\n"))


def test_hunks_map_lines_and_can_be_made_in_part(tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    root.mkdir()
    copy.mkdir()
    (root / "a.py").write_text("one\ntwo\nthree\nfour\n")
    (copy / "a.py").write_text("zero\none\ntwo\n3\nfour\nfive\n")
    found = hunks.between(root, copy, ["a.py"])
    assert len(found) == 3
    assert hunks.original_line(found, "a.py", 3) == 2
    assert hunks.original_line(found, "a.py", 4) == 3
    assert hunks.original_line(found, "a.py", 5) == 4
    (copy / "a.py").write_text((root / "a.py").read_text())
    hunks.write(root, copy, found[1:2])
    assert (copy / "a.py").read_text() == "one\ntwo\n3\nfour\n"


def _hunks(tmp_path: Path, before: str, after: str) -> list[hunks.Hunk]:
    root, copy = tmp_path / "root", tmp_path / "copy"
    root.mkdir()
    copy.mkdir()
    (root / "a.py").write_text(before)
    (copy / "a.py").write_text(after)
    return hunks.between(root, copy, ["a.py"])


def test_hunks_that_need_each_other_are_one_part(tmp_path: Path) -> None:
    before = "import x\na = 1\nb = 2\nc = 3\nprint(b)\n"
    found = _hunks(tmp_path, before, "import x\na = 1\nbb = 2\nc = 3\nprint(bb)\n")
    assert [len(part) for part in hunks.units(found)] == [2]


def test_what_only_shares_an_import_is_made_apart_and_brings_it(tmp_path: Path) -> None:
    before = "import x\na = 1\nb = 2\nc = 3\nd = 4\n"
    found = _hunks(tmp_path, before, "import y\na = 1\nb = y.two()\nc = 3\nd = y.five()\n")
    parts = hunks.units(found)
    assert [[hunk.start for hunk in part] for part in parts] == [[2], [4]]
    hunks.write(tmp_path / "root", tmp_path / "copy", [*parts[1], *hunks.shared_imports(found)])
    after = (tmp_path / "copy" / "a.py").read_text()
    assert after == "import x\nimport y\na = 1\nb = 2\nc = 3\nd = y.five()\n"


def test_what_uses_a_name_that_now_means_another_goes_with_its_import(tmp_path: Path) -> None:
    before = "from a import cast\nx = 1\nwith cast():\n    pass\ny = 2\n"
    found = _hunks(tmp_path, before, "from b import cast\nx = 1\nwith cast(1):\n    pass\ny = 3\n")
    assert [[hunk.start for hunk in part] for part in hunks.units(found)] == [[0, 2], [4]]


def test_lines_of_a_hunk_are_divided_where_each_is_python_by_itself(tmp_path: Path) -> None:
    before = "a.backward()\nb = one.cuda()\nf(\n    1,\n)\n"
    after = "a.backward()\nmark()\nb = one.hpu()\ng(\n    2, )\n"
    found = _hunks(tmp_path, before, after)
    assert [(hunk.old, hunk.new) for hunk in found[:2]] == [
        ((), ("mark()\n",)),
        (("b = one.cuda()\n",), ("b = one.hpu()\n",)),
    ] or len(found) == 1


def test_a_rewrite_counts_as_run_when_its_statement_ran(tmp_path: Path) -> None:
    from hpushim.engine.project import analyse

    (tmp_path / "a.py").write_text(
        "import torch\nx = torch.zeros(\n    3,\n    device='cuda',\n)\ndef f():\n    return x.cuda()\n"
    )
    found = covered.wanted(analyse((tmp_path,), Target()))
    lines = {place.line: own for place, _, own in found.places if place.code.startswith("HPU10")}
    assert lines[4] == frozenset((2, 3, 4, 5))
    result = covered.covered(found, {("a.py", 2)}, set(), tmp_path)
    assert {place.line for place in result.findings_run} >= {4}
    assert {place.line for place in result.findings_not_run} >= {7}


def test_the_shipped_schema_is_that_of_the_certificate() -> None:
    file = Path(certificate.__file__).with_name("prove.schema.json")
    assert file.read_bytes() == certificate.schema()


def test_the_first_operator_that_differs_is_found_with_what_ran_before_it() -> None:
    def noted(*sums: float) -> dict[str, Any]:
        return {"operators": [[f"aten.op{n}.default", [["float32", "hpu", [2]]], ["t.py", n], 1, ["hpu"], [value]] for n, value in enumerate(sums)]}  # fmt: skip

    assert first_operator(noted(1.0, 2.0), noted(1.0, 2.0)) is None
    for after, second in ((0, (7.0, 2.0, 3.0)), (2, (1.0, 2.0, 7.0))):
        found = first_operator(noted(1.0, 2.0, 3.0), noted(*second))
        assert found is not None
        assert (found.after, found.place) == (after, ("t.py", after))


def test_lines_that_lost_their_device_are_found(tmp_path: Path) -> None:
    old = ["dist.init_process_group('nccl')", "x = x.cuda()", "y = y.half()", "z = 1", "torch.cuda.empty_cache()"]  # fmt: skip
    new = ["dist.init_process_group('gloo')", "x = x.to('hpu')", "y = y.float()", "z = 2", ""]
    root, copy = tmp_path / "root", tmp_path / "copy"
    for folder, lines in ((root, old), (copy, new)):
        folder.mkdir()
        (folder / "a.py").write_text("".join(f"{line}\n" for line in lines if line))
    found = hunks.lost(hunks.between(root, copy, ["a.py"]), lambda file, line: True)
    assert found == [("a.py", 1, old[0] + "\n"), ("a.py", 3, old[2] + "\n")]
    assert hunks.lost(hunks.between(root, copy, ["a.py"]), lambda file, line: False) == []
    assert hunks.repaired(old[2]) == ["y = y.bfloat16()"]


def test_a_hunk_is_about_lines_and_its_distance_to_one_counts_from_its_ends() -> None:
    def hunk(start: int, end: int, new_start: int, new_end: int) -> hunks.Hunk:
        old, new = ("x",) * (end - start), ("y",) * (new_end - new_start)
        return hunks.Hunk("a.py", start, end, new_start, new_end, old, new)

    replaced, added, at_the_top = hunk(2, 4, 2, 5), hunk(6, 6, 7, 9), hunk(0, 0, 0, 1)
    assert [list(locate._about(one)) for one in (replaced, added, at_the_top)] == [[3, 4], [6], [1]]
    assert [locate._far(replaced, ("a.py", line)) for line in (1, 2, 3, 5, 6, 9)] == [2, 1, 0, 0, 1, 4]  # fmt: skip
    assert locate._far(replaced, ("b.py", 3)) == locate._far(replaced, None) > 10_000


def test_another_seed_is_told_before_all_steps() -> None:
    """The numbers may be the same: a seed of the device's that follows covers it where both share one stream."""
    first, second = _run(_step(1)), _run(_step(1, losses=_loss(5)))
    for run, seed in ((first, "1"), (second, "2")):
        run.record.processes[0].seeds = [{"value": seed, "place": ["t.py", 3]}]
    found = compare(first, second, same_device=True).difference
    assert found is not None
    assert (found.kind, found.what, found.place) == ("seed", "torch.manual_seed(2), 1 expected", ("t.py", 3))  # fmt: skip
    second.record.processes[0].seeds = [{"value": "1", "place": ["t.py", 9]}]
    assert compare(first, _run(_step(1)), same_device=True).difference is None


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (1.0, 1.0, True), (1.0, 1, True), (1.0, 1.05, True), (1.0, 1.2, False), (1, 1.05, False), (1, 1.0, True), (1.0, "1.0", False), ("a", "a", True), ("a", "b", False), (True, True, True), (True, False, False), (None, None, True), (None, 0.0, False), (0.0, None, False),
        ([1.0, 2.0], [1.05, 2.0], True), ([1.0, 2.0], [1.0, 2.5], False), ([1.0], [1.0, 2.0], False), ([], [], True), ([1.0], 1.0, False), ((0.9, 0.99), (0.9, 0.99), True),
    ],
)  # fmt: skip
def test_when_an_option_of_an_optimizer_is_the_same(ours: Any, theirs: Any, same: bool) -> None:
    assert compare_module._is_option(ours, theirs, 0.1) is same
    expected = "" if same else f"the optimizer's eps is {theirs}, {ours} expected"
    assert compare_module._odd_options({"options": [{"eps": ours, "a": 1}]}, {"options": [{"eps": theirs, "b": 2}]}, 0.1) == expected  # fmt: skip
    assert compare_module._odd_options({"options": None}, {"options": [{}]}, 0.1) == ""


@pytest.mark.parametrize(
    ("a", "b", "scale", "far"),
    [
        ([[1.0, 2.0]], [[1.0, 2.0]], 2.0, 0.0), ([[1.0, 2.0]], [[1.0, 5.0]], 2.0, 1.5), ([[1.0, 0.0], [2.0, 0.0]], [[4.0, 1.0], [6.0, 0.0]], 5.0, 1.0), ([[1.0, 2.0]], [[1.0, 5.0]], 0.0, 0.0), ([[1.0, 2.0]], [], 2.0, 0.0), (None, None, 2.0, 0.0),
        ([[1.0, math.inf]], [[1.0, 5.0]], 2.0, 0.0),
    ],
)  # fmt: skip
def test_how_far_apart_tensors_are_at_least(a: Any, b: Any, scale: float, far: float) -> None:
    assert compare_module._tensors_apart({"each": a}, {"each": b}, scale) == far


@pytest.mark.parametrize(
    ("a", "b", "scale", "far"),
    [(1.0, 1.0, 0.0, 0.0), (math.nan, math.nan, 0.0, 0.0), (1.0, math.nan, 0.0, math.inf), (math.inf, math.inf, 0.0, 0.0), (math.inf, 1.0, 0.0, math.inf), (2.0, 1.0, 0.0, 0.5), (1.0, -2.0, 0.0, 1.5), (2.0, 1.0, 4.0, 0.25), (0.0, 0.0, 0.0, 0.0)],
)  # fmt: skip
def test_how_far_apart_numbers_are(a: float, b: float, scale: float, far: float) -> None:
    assert compare_module.distance(a, b, scale) == compare_module.distance(b, a, scale) == far


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ({"w": "k"}, {"w": "k"}, "the optimizer's parameters are 1 in y; 1 in x expected"), ({"w": "k", "b": "k"}, {"w": "k"}, "parameter b is not in the optimizer"), ({"w": "k", "b": "k", "c": "k"}, {"w": "k"}, "parameter b (and 1 more) is not in the optimizer"),
        ({"w": "k"}, {"w": "k", "b": "k"}, "parameter b is also in the optimizer"), ({"w": "k", "b": "k"}, {"w": "k", "b": "l"}, "parameter b is l, k expected"), (None, None, "the optimizer's parameters are 1 in y; 1 in x expected"),
    ],
)  # fmt: skip
def test_which_parameters_are_other_ones(ours: Any, theirs: Any, said: str) -> None:
    one, other = ({"parameters": {"kinds": {kind: 1}}, "names": names} for kind, names in (("x", ours), ("y", theirs)))  # fmt: skip
    assert compare_module._odd_parameters(one, other) == said
    assert compare_module._odd_parameters(one, {**other, "parameters": one["parameters"]}) == ""


def test_which_parameters_have_no_gradient() -> None:
    without = compare_module._without_gradients
    assert without({}, {"without": ["w", "", "b"]}) == "parameter w (and 1 more) has no gradient"
    assert without({"without": ["w", "b"]}, {"without": ["w"]}) == "parameter b has a gradient, none expected"  # fmt: skip
    assert without({"without": ["w", ""]}, {"without": ["w"]}) == without({}, {}) == ""
