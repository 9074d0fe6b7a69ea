"""A question about a name is answered from what is said of that name, or the name is said to be unknown."""

from __future__ import annotations

import difflib

import pytest
from crossed import EVERY

from hpushim.matrix import load, vendor_names
from hpushim.matrix.lookup import Answer, _likeness, look_up, near
from hpushim.matrix.query import WHOLE
from hpushim.model import Target

M = load()
TARGET = Target()


def _honest(name: str) -> Answer:
    """The answer to a name, which must come from its own row, its own operators, the vendor's list, or the whole of its package."""
    answer = look_up(M, name, TARGET)
    if answer.verdict is not None:
        row = answer.verdict.row
        assert row is not None
        own = any(
            name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in row.names
        )
        whole = (
            row.kind == "package"
            and row.name != "torch"
            and answer.verdict.status in WHOLE
            and name.startswith(f"{row.name}.")
        )
        assert own or whole, (name, row.name)
    last = name.replace("::", ".").split(".")
    for overload in answer.operators:
        packet = overload.partition("::")[2].partition(".")[0]
        assert packet in last or packet == f"{last[-2]}_{last[-1]}", (name, overload)
    for row in answer.leads_here:
        assert (
            row.target.split("(")[0] == name
            or row.target == name
            or row.target.endswith(f".{name}")
        )
    if answer.vendor:
        assert vendor_names.known(name)
    return answer


@pytest.mark.parametrize(("steps", "known"), [(0, True), (1, True), (4, True), (5, False)])
def test_a_name_that_is_taken_over_is_followed_some_steps(monkeypatch: pytest.MonkeyPatch, steps: int, known: bool) -> None:  # fmt: skip
    origins = {f"m.n.c{step}": f"m.n.c{step + 1}" for step in range(steps)}
    listed = frozenset({f"m.n.c{steps}.x"}), {**origins, "m.n.own": "m.n.own"}, frozenset({"m.n"})
    monkeypatch.setattr(vendor_names, "_listed", lambda: listed)
    assert vendor_names.known("m.n.c0.x") is known
    assert vendor_names.known("m.n") and not vendor_names.known("m.n.own.x")


def test_every_row_answers_for_each_of_its_names() -> None:
    for row in M.rows:
        for name in row.names:
            answer = _honest(name)
            assert answer.verdict is not None
            assert name in answer.verdict.row.names  # type: ignore[union-attr]


def test_a_name_with_a_letter_too_many_is_never_answered() -> None:
    for row in M.rows[:: 1 if EVERY else 3]:
        for name in row.names:
            if row.kind in ("python", "argument") and not name.endswith("*"):
                wrong = f"{name[:-1]}qz{name[-1]}"
                answer = _honest(wrong)
                assert not answer.known or (answer.verdict and answer.verdict.inherited), wrong


def test_every_operator_of_the_table_is_answered() -> None:
    for name in [*M.operators.support][:: 1 if EVERY else 5]:
        assert name in _honest(name).operators, name
        assert not look_up(M, f"{name}qz", TARGET).known


def test_every_name_of_the_vendor_is_answered() -> None:
    assert [name for name in vendor_names.names() if not _honest(name).known] == []
    assert vendor_names.known("torch.hpu.memory_stats")
    assert vendor_names.known("habana_frameworks.torch.core.hpu.Event")
    assert not vendor_names.known("torch.hpu.memory_statz")
    assert not vendor_names.known("habana_frameworks.torch.core.hpu.Evnt")


def test_names_of_torch_itself_are_answered_for_themselves_or_unknown() -> None:
    torch = pytest.importorskip("torch", reason="its names are asked")
    modules = {
        "torch": torch,
        "torch.Tensor": torch.Tensor,
        "torch.nn": torch.nn,
        "torch.nn.functional": torch.nn.functional,
        "torch.cuda": torch.cuda,
        "torch.linalg": torch.linalg,
        "torch.fft": torch.fft,
        "torch.special": torch.special,
        "torch.optim": torch.optim,
        "torch.distributed": torch.distributed,
        "torch.backends": torch.backends,
        "torch.utils": torch.utils,
    }
    answered = unknown = 0
    for prefix, module in modules.items():
        for name in dir(module):
            if name.startswith("_"):
                continue
            answer = _honest(f"{prefix}.{name}")
            answered += answer.known
            unknown += not answer.known
            for overload in answer.operators:
                # torch has the operator too, unless only Gaudi has it.
                assert hasattr(torch.ops.aten, overload.partition("::")[2].partition(".")[0]), (
                    overload
                )
    assert answered > 900, (answered, unknown)
    assert unknown > 500, (answered, unknown)


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("torch.cat", "aten::cat"),
        ("torch.Tensor.add_", "aten::add_.Tensor"),
        ("torch.nn.functional.relu", "aten::relu"),
        ("torch.linalg.multi_dot", "aten::linalg_multi_dot"),
        ("torch.ops.aten.add.Tensor", "aten::add.Tensor"),
        ("torch.ops.aten.relu.default", "aten::relu"),
        ("torch.cat()", "aten::cat"),
        ("cumsum", "aten::cumsum"),
    ],
)
def test_the_ways_to_write_an_operator(name: str, operator: str) -> None:
    assert operator in look_up(M, name, TARGET).operators


@pytest.mark.parametrize(
    "name", ["torch.nonsense", "torch.cdua", "torch.cdua.synchronize", "torch.cuda.nonsense", "torch.linalg.nonsense",
             "aten::nonsense", "torch.ops.aten.nonsense", "nonsense", "torch.load(nonsense=)", ""]
)  # fmt: skip
def test_what_nobody_knows_is_unknown(name: str) -> None:
    assert not look_up(M, name, TARGET).known


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("torch.cdua", "torch.cuda"),
        ("torch.cdua.synchronize", "torch.cuda.synchronize"),
        ("torch.einsun", "torch.einsum"),
        ("torch.linalg.dett", "torch.linalg.det"),
        ("F.relu", "torch.relu"),
        ("nn.DataParallel", "torch.nn.DataParallel"),
        ("torch.hpu.synchronise", "torch.hpu.synchronize"),
        ("synchronise", "torch.cuda.synchronize"),
    ],
)
def test_near_names_come_first(wrong: str, right: str) -> None:
    assert right in near(M, wrong)[:3]


def test_what_a_name_would_be_part_of_is_code() -> None:
    above = look_up(M, "torch.cuda.nonsense", TARGET).above
    assert above is not None
    assert above.name == "torch.cuda"
    assert look_up(M, "cuda.amp.autocast", TARGET).above is None  # `cuda` is the string of a device


def test_nothing_is_suggested_for_what_resembles_nothing() -> None:
    assert near(M, "qwertzuiop.asdfghjkl") == ()


def test_at_most_five_names_are_suggested() -> None:
    assert max(len(near(M, f"{row.name}_")) for row in M.rows[::40]) == 5


@pytest.mark.parametrize("above", ["", "torch.", "torch.cuda.", "torch.cuda.amp."])
@pytest.mark.parametrize(("mine", "other"), [("sin", "sinh"), ("aa", "aa"), ("aa", "bb"), ("amp.xy", "xy"), ("xy", "amp.xy")])  # fmt: skip
def test_how_alike_names_are_is_said_by_where_they_part(above: str, mine: str, other: str) -> None:
    """What both begin with makes none of them more alike; of a bare word the last part is compared."""
    parts = other if above or "." in mine else other.rpartition(".")[2]
    expected = difflib.SequenceMatcher(None, mine, parts).ratio()
    assert _likeness(f"{above}{mine}", f"{above}{other}") == expected
