"""The parts of a proof that only read: words of a command, records of a run, operators in pairs, which statements a finding is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from steps_by_hand import run, step

from hpushim.model import FileResult, Finding, Report, Span, Target
from hpushim.prove import compare, covered, records, words
from hpushim.prove.records import Process, Refused
from hpushim.prove.words import Command

# Words


@pytest.mark.parametrize(
    ("given", "module", "expected", "processes"),
    [
        (("t.py", "--x"), None, Command((), "t.py", ("--x",)), 1), (("--x", "1"), "pkg", Command((), "pkg", ("--x", "1"), module=True), 1), (("python", "t.py"), None, Command((), "python", ("t.py",)), 1),
        (("torchrun", "t.py"), None, Command(("torchrun",), "t.py", ()), 1), (("/b/torchrun", "--nproc_per_node=4", "t.py", "a"), None, Command(("/b/torchrun", "--nproc_per_node=4"), "t.py", ("a",)), 4),
        (("torchrun", "--nproc-per-node", "2", "-m", "pkg", "a"), None, Command(("torchrun", "--nproc-per-node", "2"), "pkg", ("a",), module=True), 2), (("torchrun", "--module", "pkg"), None, Command(("torchrun",), "pkg", (), module=True), 1),
        (("torchrun", "--nproc_per_node=gpu", "t.py"), None, Command(("torchrun", "--nproc_per_node=gpu"), "t.py", ()), 1), (("torchrun", "--nproc_per_node=0", "t.py"), None, Command(("torchrun", "--nproc_per_node=0"), "t.py", ()), 1),
        (("accelerate", "launch", "--num_processes", "8", "t.py"), None, Command(("accelerate", "launch", "--num_processes", "8"), "t.py", ()), 8),
    ],
)  # fmt: skip
def test_a_command_is_divided_at_its_script(given: tuple[str, ...], module: str | None, expected: Command, processes: int) -> None:  # fmt: skip
    found = words.parse(given, module)
    assert (found, found.processes, found.launcher) == (expected, processes, found.before[0] if found.before else "")  # fmt: skip
    marked = tuple("-m" if word == "--module" else word for word in given)
    assert found.shown() == (("-m", "pkg", *given) if module else marked)


@pytest.mark.parametrize("given", [("torchrun",), ("torchrun", "-m"), ("torchrun", "--x", "y")])
def test_a_launcher_without_a_script_is_refused(given: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"^{given[0]}: no Python script among its arguments$"):
        words.parse(given)


OPTIONS = "import argparse\np.add_argument({0})\n"


@pytest.mark.parametrize(
    ("args", "source", "told", "expected", "why"),
    [
        (("--a", "cuda"), "", ("--b",), ("--a", "cpu", "--b"), "by --cpu-args: --b"), (("--a", "cuda"), "", None, ("--a", "cpu"), "by its arguments: --a cpu"), (("a",), "", (), ("a",), "by --cpu-args: "),
        (("--cuda", "x"), OPTIONS.format('"--cuda", action="store_true"'), None, ("x",), "without --cuda"), (("--cuda", "x"), OPTIONS.format('"--cuda"'), None, ("--cuda", "x"), "as it is"),
        ((), OPTIONS.format('"--no-cuda", action="store_true"'), None, ("--no-cuda",), "by its option --no-cuda"), (("--no-cuda",), OPTIONS.format('"--no-cuda", action="store_true"'), None, ("--no-cuda",), "as it is"), ((), OPTIONS.format('"--no-cuda"'), None, (), "as it is"),
        ((), OPTIONS.format('"--no-cuda", is_flag=True').replace("add_argument", "option"), None, ("--no-cuda",), "by its option --no-cuda"), ((), OPTIONS.format('"--no-cuda", is_flag=False').replace("add_argument", "option"), None, (), "as it is"),
        ((), OPTIONS.format('"-d", "--device"'), None, ("--device", "cpu"), "by its option --device cpu"), (("--device=x",), OPTIONS.format('"--device"'), None, ("--device=x",), "as it is"), (("--devices",), OPTIONS.format('"--device"'), None, ("--devices", "--device", "cpu"), "by its option --device cpu"),
        ((), OPTIONS.format('"--device", type=int'), None, (), "as it is"), ((), OPTIONS.format('"--device", type=str'), None, ("--device", "cpu"), "by its option --device cpu"), ((), OPTIONS.format('"--device", action="store_true"'), None, (), "as it is"),
        ((), OPTIONS.format('"--no-cuda", action="store_true"').replace("add_argument", "other"), None, (), "as it is"), ((), "torch.cuda.is_available()", None, (), "by its own check of what is available"), ((), "if is_available():\n  (", None, (), "by its own check of what is available"),
        ((), "p.add_argument(f(), 3, '--device')", None, ("--device", "cpu"), "by its option --device cpu"), ((), 'add_argument("--device")', None, (), "as it is"),
    ],
)  # fmt: skip
def test_how_a_script_is_kept_on_the_cpu(args: tuple[str, ...], source: str, told: tuple[str, ...] | None, expected: tuple[str, ...], why: str) -> None:  # fmt: skip
    assert words.on_cpu(args, source, told) == words.OnCpu(expected, why)


# Records


def _written(folder: Path, name: str, *events: dict[str, Any], more: str = "") -> None:
    (folder / name).write_text("".join(json.dumps(event) + "\n" for event in events) + more)


def _step(number: int, rank: int | None = None) -> dict[str, Any]:
    return {"event": "step", **step(number, rank=rank)}


def test_what_a_run_recorded_is_read_back(tmp_path: Path) -> None:
    saved = {"file": "a.pt", "step": 1, "leaves": {}}
    _written(
        tmp_path, "1.7.jsonl", _step(1), _step(2), {"event": "operators", "step": 1, "operators": []}, {"event": "saved", **saved}, {"event": "seed", "value": "3"}, {"event": "stopped", "step": 2}, {"event": "line", "file": "t.py", "line": 4},
        {"event": "scalar", "name": "loss", "value": "1.5", "line": 6}, {"event": "refused", "code": "A", "what": "x", "file": "t.py", "line": 2}, {"event": "narrowed", "code": "B", "what": "y"}, {"event": "beside", "file": "b.py"},
        {"event": "alone", "why": "w"}, {"event": "read", "file": "c.yaml"}, {"event": "error", "kind": "E", "when": 2.0}, {"event": "pass", "loss": {"place": ["t.py", 1]}}, {"event": "another"}, more='{"event": "st',
    )  # fmt: skip
    _written(tmp_path, "-.8.jsonl", _step(1, rank=0), {"event": "error", "kind": "F", "when": 1.0})
    _written(tmp_path, "-.9.jsonl", {"event": "line", "file": "t.py", "line": 5})
    (tmp_path / "orders").write_text("{}")
    found = records.read(tmp_path)
    assert [(one.rank, len(one.steps), one.stopped, one.by_hand) for one in found.processes] == [(0, 1, False, False), (1, 2, True, False)]  # fmt: skip
    second = found.processes[1]
    assert (second.operators, second.saved, second.seeds) == ({1: {"step": 1, "operators": []}}, [saved], [{"value": "3"}])  # fmt: skip
    assert (found.steps, found.saved, [one["kind"] for one in found.errors]) == (1, [saved], ["F", "E"])  # fmt: skip
    assert (found.lines, found.files, found.beside, found.alone) == ({("t.py", 4), ("t.py", 5)}, {"c.yaml"}, {"b.py"}, {"w"})  # fmt: skip
    assert (found.scalars, found.refused, found.narrowed) == ([("loss", 1.5, 6)], [Refused("A", "x", "t.py", 2)], [Refused("B", "y")])  # fmt: skip
    assert records.read(tmp_path / "nothing").steps == 0


def test_a_script_without_an_optimizer_has_its_backward_passes(tmp_path: Path) -> None:
    losses = [{"value": str(n), "place": ["t.py", n]} for n in (1, 2)]
    _written(tmp_path, "0.7.jsonl", *({"event": "pass", "loss": one} for one in losses))
    (process,) = records.read(tmp_path).processes
    nothing = {"norm": "0.0", "bits": 0, "count": 0, "kinds": {}}
    assert process.by_hand and [one["step"] for one in process.steps] == [1, 2]
    assert process.steps[1] == {"step": 2, "optimizer": 0, "rank": None, "rates": [], "losses": losses[1:], "gradients": nothing, "parameters": nothing, "marks": [0, 0, 0], "place": ["t.py", 2]}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("aten.mm.default", True), ("aten.convolution_overrideable.default", True), ("custom.linear", True), ("matmul", True), ("aten.add.Tensor", False), ("mm.add", False), ("add", False)],
)  # fmt: skip
def test_in_which_operators_training_does_its_work(name: str, is_one: bool) -> None:
    assert records.compute(name) is is_one
    process = Process(0, [])
    process.operators = {1: {"operators": [[name, [["float32", "hpu", [2]], ["float32", "cpu", [2]]]], [name, []]]}}  # fmt: skip
    assert records.Record([process]).devices() == ({"hpu": 1} if is_one else {})


# Operators


def _ops(*names: str) -> list[Any]:
    return [_op(name) for name in names]


def _op(name: str = "mm", dtype: str = "float32", device: str = "hpu", shape: Any = (2,), line: int | None = 4, given: tuple[str, ...] = ("hpu",), values: Any = None) -> list[Any]:  # fmt: skip
    place = None if line is None else ["t.py", line]
    found = [f"aten.{name}.default", [[dtype, device, list(shape)]], place, 1, list(given)]
    return found if values is None else [*found, values]


def _told(ours: list[Any], theirs: list[Any], within: float | None = None) -> Any:
    found = compare.first_operator({"operators": ours}, {"operators": theirs}, within)
    return found and (found.kind, found.what, found.place, found.missing, found.after)


@pytest.mark.parametrize(
    ("ours", "theirs", "within", "expected"),
    [
        (_ops("mm", "add"), _ops("mm", "add"), None, None), (_ops("mm", "clone", "add"), _ops("copy_", "mm", "add"), None, None), (_ops("mm", "add"), _ops("mm", "add", "relu"), None, ("operator", "aten.relu.default ran, which the reference run does not do", ("t.py", 4), None, 2)),
        (_ops("mm", "add", "relu"), _ops("mm", "add"), None, None), (_ops("mm"), [_op("relu", line=None)], None, ("operator", "aten.relu.default ran, which the reference run does not do", None, None, 0)), (_ops("mm", "add"), _ops("mm", "relu"), 0.1, None),
        (_ops("mm"), _ops("rand"), 0.1, ("operator", "aten.rand.default ran, which the reference run does not do", ("t.py", 4), None, 0)), ([_op()], [_op(given=("cpu", "hpu"))], None, ("device", "aten.mm.default was given tensors on cpu and hpu, on hpu expected", ("t.py", 4), None, 0)),
        ([_op()], [_op(given=("cpu",))], 0.1, None), ([_op()], [_op(device="cpu")], None, ("device", "aten.mm.default ran on cpu, on hpu expected", ("t.py", 4), None, 0)), ([_op()], [_op(device="cpu")], 0.1, None),
        ([_op()], [_op(dtype="bfloat16")], None, ("dtype", "aten.mm.default gave bfloat16[2], float32[2] expected", ("t.py", 4), None, 0)), ([_op()], [_op(dtype="bfloat16")], 0.1, None), ([_op()], [_op(shape=(3,))], None, ("operator", "aten.mm.default gave float32[3], float32[2] expected", ("t.py", 4), None, 0)),
        ([_op()], [_op(shape=(3,))], 0.1, ("operator", "aten.mm.default gave float32[3], float32[2] expected", ("t.py", 4), None, 0)), ([_op()], [_op(device="cpu", shape=(3,))], 0.1, ("device", "aten.mm.default ran on cpu, on hpu expected", ("t.py", 4), None, 0)),
        ([_op(values=["1.0"])], [_op(values=["1.5"])], None, ("operator", "aten.mm.default gave different values (sum 1.5, 1 expected)", ("t.py", 4), None, 0)), ([_op(values=["1.0"])], [_op(values=["1.0000001"])], None, None), ([_op(values=["1.0"])], [_op(values=["1.5"])], 0.4, None), ([_op(values=["1.0"])], [_op(values=["1.5"])], 0.3, ("operator", "aten.mm.default gave different values (sum 1.5, 1 expected)", ("t.py", 4), None, 0)),
        ([_op(values=[None])], [_op(values=["1.5"])], None, None), ([_op(values=["1.0"])], [_op(values=[None])], None, None), ([_op(values=["1.0"])], [_op()], None, None), ([_op()], [_op(values=["1.0"])], None, None),
        ([_op("relu", line=2), _op(values=["1.0"]), _op("add")], [_op(values=["1.5"]), _op("add")], None, ("operator", "aten.mm.default gave different values (sum 1.5, 1 expected)", ("t.py", 4), ("t.py", 2), 1)),
        ([_op("relu", line=2), _op("sub", line=None), _op(values=["1.0"]), _op("add")], [_op(values=["1.5"]), _op("add")], None, ("operator", "aten.mm.default gave different values (sum 1.5, 1 expected)", ("t.py", 4), ("t.py", 2), 2)),
        ([_op("relu", line=2), _op(), _op("add", values=["1.0"])], [_op(), _op("add", values=["1.5"])], None, ("operator", "aten.add.default gave different values (sum 1.5, 1 expected)", ("t.py", 4), None, 2)),
        (_ops("convolution_overrideable", "add_"), _ops("convolution", "add"), None, None),
    ],
)  # fmt: skip
def test_the_first_operator_that_is_another_one(ours: list[Any], theirs: list[Any], within: float | None, expected: Any) -> None:  # fmt: skip
    assert _told(ours, theirs, within) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "pairs"),
    [
        ("ab", "ab", ["aa", "bb"]), ("abc", "bc", ["a-", "bb", "cc"]), ("bc", "abc", ["-a", "bb", "cc"]), ("abc", "xbc", ["a-", "-x", "bb", "cc"]), ("ab", "xb", ["a-", "-x", "bb"]), ("a", "x", ["-x"]), ("ab", "a", ["aa", "b-"]), ("a", "ab", ["aa", "-b"]), ("", "a", ["-a"]),
        ("abcd", "xbyd", ["a-", "b-", "c-", "-x", "-b", "-y", "dd"]), ("aabc", "bc", ["a-", "a-", "bb", "cc"]),
    ],
)  # fmt: skip
def test_operators_are_paired_with_the_fewest_left_out(ours: str, theirs: str, pairs: list[str]) -> None:  # fmt: skip
    found = [tuple(one[0] if one else "-" for one in pair) for pair in compare._aligned([[name] for name in ours], [[name] for name in theirs])]  # fmt: skip
    assert ["".join(pair) for pair in found] == pairs


@pytest.mark.parametrize(
    ("ours", "theirs", "notes"),
    [
        ("a 1\nb", "a 2\nb", []), ("on cuda:0", "on hpu", []), ("a\n\nb", "a\nb\n", []), ("a\rb", "a\nb", []), ("a", "b", ["output differs from line 1: 'b', 'a' expected"]), ("a\nb", "a\nc", ["output differs from line 2: 'c', 'b' expected"]),
        ("a", "a\nb", ["output has 2 lines, 1 expected"]), ("a\nb", "a", ["output has 1 lines, 2 expected"]), ("x" * 200, "y" * 200, [f"output differs from line 1: {'y' * 100!r}, {'x' * 100!r} expected"]), ("a\nb\nc", "a\nx\ny", ["output differs from line 2: 'x', 'b' expected"]),
    ],
)  # fmt: skip
def test_where_outputs_differ_in_words(ours: str, theirs: str, notes: list[str]) -> None:
    first, second = run(), run()
    result = compare.Comparison("shim", "native")
    import msgspec

    compare._output(msgspec.structs.replace(first, output=ours), msgspec.structs.replace(second, output=theirs), result)  # fmt: skip
    assert result.notes == notes


# Statements and places


@pytest.mark.parametrize(
    ("text", "line", "lines"),
    [
        ("x = 1\n", 1, {1}), ("x = (\n1,\n)\n", 2, {1, 2, 3}), ("if a:\n    b\nc\n", 1, {1}), ("if (a or\n    b):\n    c\n", 2, {1, 2}), ("if a:\n    b\nc\n", 2, {2}), ("@d\n@e(\n1)\ndef f(\n  x):\n    pass\n", 2, {1, 2, 3, 4, 5}), ("@d\nclass A:\n    x = 1\n", 1, {1, 2}),
        ("match a:\n  case 1:\n    b\n", 1, {1}), ("for x in y: z\n", 1, {1}), ("# no\nx = 1\n", 1, {1}), ("x = (\n", 1, {1}), ("def f(): return (\n 1)\n", 2, {1, 2}),
    ],
)  # fmt: skip
def test_the_lines_of_a_statement(text: str, line: int, lines: set[int]) -> None:
    assert covered.statement_lines(line, covered.statements(text.encode())) == lines


def _finding(code: str = "HPU101", line: int = 1, severity: Any = "warning", applied: bool = False) -> Finding:  # fmt: skip
    return Finding(code, "n", severity, "safe", f"m{line}", Span(0, 1), line, 1, line, 2, applied=applied)  # fmt: skip


def test_which_lines_are_asked_about_and_what_each_tells() -> None:
    cells = [{"cell_type": kind, "source": source, "metadata": {}, **({"outputs": [], "execution_count": None} if kind == "code" else {})} for kind, source in (("markdown", ["text"]), ("code", ["x = (\n", "1)\n"]), ("code", ["y = 2"]))]  # fmt: skip
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()  # fmt: skip
    at = notebook.splitlines().index(b'    "1)\\n"') + 1 if b'    "1)\\n"' in notebook.splitlines() else notebook[: notebook.index(b'"1)')].count(b"\n") + 1  # fmt: skip
    files = (
        FileResult("a.py", "changed", None, (_finding(line=2, applied=True), _finding("HPU102", 1), _finding("HPU103", 1, "note"), _finding("HPU104", 1, "note", True), _finding("HPU003", 1)), b"x = 1\ny = (\n2)\n"),
        FileResult("c.yaml", "changed", None, (_finding(line=3, applied=True),), b"a: 1\n"), FileResult("n.ipynb", "changed", None, (_finding(line=at),), notebook), FileResult("bad.ipynb", "changed", None, (_finding(),), b"{"), FileResult("none.py", "changed", None, (_finding(),)),
    )  # fmt: skip
    found = covered.wanted(Report("hpushim", Target(), files))
    told = [(place.file, place.code, place.line, place.applied, place.message, where, sorted(lines)) for place, where, lines in found.places]  # fmt: skip
    assert told == [
        ("a.py", "HPU101", 2, True, "m2", "a.py", [2, 3]), ("a.py", "HPU102", 1, False, "m1", "a.py", [1]), ("a.py", "HPU104", 1, True, "m1", "a.py", [1]), ("c.yaml", "HPU101", 3, True, "m3", "c.yaml", []),
        ("n.ipynb", "HPU101", at, False, f"m{at}", "n_cells.py", [1, 2]), ("bad.ipynb", "HPU101", 1, False, "m1", "bad.ipynb", []), ("none.py", "HPU101", 1, False, "m1", "none.py", [1]),
    ]  # fmt: skip
    assert found.lines == {"a.py": [1, 2, 3], "n_cells.py": [1, 2], "none.py": [1]}
    ran = covered.covered(found, {("a.py", 3), ("n_cells.py", 9)}, {"c.yaml"}, Path())
    names = [[(one.file, one.code) for one in some] for some in (ran.rewrites_run, ran.rewrites_not_run, ran.findings_run, ran.findings_not_run)]  # fmt: skip
    assert names == [[("a.py", "HPU101"), ("c.yaml", "HPU101")], [("a.py", "HPU104")], [], [("a.py", "HPU102"), ("n.ipynb", "HPU101"), ("bad.ipynb", "HPU101"), ("none.py", "HPU101")]]  # fmt: skip
    assert ran.files_not_loaded == ["bad.ipynb", "none.py"]
    assert ran.share == 2 / 3 and covered.Coverage().share is None
