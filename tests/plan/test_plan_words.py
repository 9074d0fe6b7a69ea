"""What a plan says: each line for each state that it may be in, and the arithmetic behind it at its borders."""

from __future__ import annotations

import sys
import types
from typing import Any

import msgspec
import pytest
import torch

from hpushim.matrix import load
from hpushim.model import Target
from hpushim.plan import fake, rank, text
from hpushim.plan.estimate import (  # fmt: skip
    Estimate,
    Holding,
    Refusal,
    Traffic,
    _aligned,
    _of_one,
    estimate,
    sent,
)
from hpushim.plan.fake import LeftOut
from hpushim.plan.observed import Collective, Observed, Overrun, Parameters

M = load()
T = Target()
CALL = Traffic("all_reduce", "SUM", ("float32", "bfloat16"), 8, 1, 3, 4000, 2000, 0)
PLAIN = Estimate(T, 16, 2, 8, 96 * 10**9, 2, (), (CALL,), 10, (), (), 0.0015, ())


def _said(**how: Any) -> list[str]:
    return text.render(msgspec.structs.replace(PLAIN, **how), M).splitlines()


def test_an_estimate_has_these_lines() -> None:
    info = M.generations[T.gaudi]
    assert info.ports is not None
    assert _said() == [
        "ESTIMATE, not a measurement: one rank of 16 on the emulated HPU, with torch's fake process group.",
        f"{info.title}, release {T.stack}: 16 devices are 2 servers of 8, {info.memory_gb} GB a device; 2 steps of the first optimizer run",
        "",
        "Collectives of one step",
        "  collective                       calls  ranks servers      whole  sent inside sent outside",
        "  all_reduce SUM float32/bfloat16      3      8       1    4.00 kB      2.00 kB          0 B",
        "",
        f"At the documented rate of the ports ({info.ports.inside} inside and {info.ports.outside} out of a server, {info.ports.gbit} Gbit/s each) that takes 1.50 ms a step at least, if nothing else delays it.",
        "",
        "The matrix lists no limit of HCCL for the collectives of this run.",
        "",
        *_said()[-3:],
    ]  # fmt: skip
    assert text.render(PLAIN, M).endswith("are not real here.\n")


@pytest.mark.parametrize(
    ("how", "there", "away"),
    [
        ({"servers": 1, "world": 8, "steps": 1}, ["8 devices are 1 server of 8", "1 step of the first optimizer run"], ["Once in", "OUT OF", "Memory of", "rejects", "note:"]),
        ({"step": (), "steps": 0}, ["No collectives: the program made no process group, or did not use it."], ["At the documented", "Collectives of", "matrix lists"]),
        ({"steps": 0}, ["Collectives of the whole run (no optimizer stepped)", "0 steps of"], ["of one step"]),
        ({"step": (), "first": (CALL,)}, ["Once in the run: before the first step, or in one step alone", "The matrix lists no limit"], ["No collectives", "At the documented"]),
        ({"seconds": None}, ["Collectives of one step"], ["At the documented"]),
        ({"seconds": 0.0}, ["takes 0.00 ms a step"], []),
        ({"overrun": Overrun("a.py:3", 2000, 10**9)}, ["OUT OF MEMORY foreseen at a.py:3: 2.00 kB more with 1.00 GB of 96.00 GB in use"], []),
        ({"holdings": (Holding("one", "P", 5, True), Holding("two", "Q", 6, False))}, ["for the batch that was run", "fits  = P", "DOES NOT FIT  = Q", "A lower bound: a Gaudi", "P parameters, G gradients"], []),
        ({"refusals": (Refusal("what", "changed", "a note", "a row"),)}, ["What HCCL rejects or does differently", '  what: changed: a note (`hpushim api "a row"`)'], ["matrix lists"]),
        ({"notes": ("one", "two")}, ["note: one", "note: two"], []),
        ({"left_out": LeftOut(1234, 5, {}, {}, {}, {})}, ["Nothing was computed (--fake): 1,234 calls of operators", "host memory: 5 B in large tensors at the peak of one process; a server runs up to 8 of them"], ["values that were not there", "not saved", "estimated by", "computed, since"]),
    ],
)  # fmt: skip
def test_each_line_is_there_where_it_holds(how: dict[str, Any], there: list[str], away: list[str]) -> None:  # fmt: skip
    said = "\n".join(_said(**how))
    assert [one for one in there if one not in said] == []
    assert [one for one in away if one in said] == []


@pytest.mark.parametrize("number", [1, 2, 12, 13, 14])
def test_a_table_names_the_largest_and_adds_up_all(number: int) -> None:
    calls = tuple(Traffic(f"c{n}", "", ("float32",), 8, 1, 10, 1000, 100, 7) for n in range(number))
    lines = list(text._table(calls))
    assert [line.split()[0] for line in lines[1 : 1 + min(number, 12)]] == [f"c{n}" for n in range(min(number, 12))]  # fmt: skip
    rest = lines[1 + min(number, 12) :]
    more = [f"  … and {number - 12} smaller ones"] if number > 12 else []
    total = [f"  {'all':<32} {10 * number:>5} {'':>6} {'':>7} {text._size(1000 * number):>10} {text._size(100 * number):>12} {text._size(7 * number):>12}"] if number > 1 else []  # fmt: skip
    assert rest == [*more, *total, ""]


@pytest.mark.parametrize("field", ["reads", "estimated", "computed", "saved"])
@pytest.mark.parametrize("number", [1, 5, 6, 7])
def test_what_was_left_out_is_named_the_most_frequent_first(field: str, number: int) -> None:
    books: dict[str, Any] = {name: {} for name in ("computed", "estimated", "reads", "saved")}
    what = LeftOut(1, 1, **{**books, field: {f"o{n}": 1000 * (n // 2) + 1 for n in range(number)}})  # type: ignore[arg-type]  # fmt: skip
    (line,) = list(text._left_out(what, 8))[2:-1]
    head = {"reads": "values that were not there, read as 0", "estimated": "size of the result unknown, estimated by its upper limit", "computed": "computed, since torch has no shape rule for them", "saved": "not saved"}[field]  # fmt: skip
    order = sorted(range(number), key=lambda n: (-(n // 2), n))
    names = ", ".join(f"o{n} ({1000 * (n // 2) + 1:,} ×)" for n in order[:5])
    assert line == f"  {head}: {names}" + (f", and {number - 5} more" if number > 5 else "")


@pytest.mark.parametrize(("number", "words"), [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (999_994, "999.99 kB"), (10**6, "1.00 MB"), (10**9, "1.00 GB"), (10**12, "1.00 TB"), (10**15, "1000.00 TB")])  # fmt: skip
def test_sizes_in_units_of_a_thousand(number: int, words: str) -> None:
    assert text._size(number) == words


@pytest.mark.parametrize("part", [(0, 1), (2, 3), (1, 2), (0, 2), (0, 1, 2), (0, 1, 2, 3), (4, 5, 6, 7), (2, 3, 4, 5), (0, 1, 2, 4), (0,), (0, 1, 2, 3, 4, 5)])  # fmt: skip
def test_aligned_groups(part: tuple[int, ...]) -> None:
    good = {(0, 1), (2, 3), (0, 1, 2, 3), (4, 5, 6, 7)}
    assert _aligned(part) == (part in good)
    told = [one for one in _of_one(Collective("send", 1, (), "", tuple(8 + n for n in part), 0), M, T, 8) if one.what.startswith("a group")]  # fmt: skip
    assert [one.what for one in told] == ([] if part in good or len(part) == 1 else [f"a group of the devices {', '.join(map(str, part))} of a server"])  # fmt: skip
    assert not [one for one in _of_one(Collective("send", 1, (), "", tuple(range(8)), 0), M, T, 8) if one.what.startswith("a group")]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [("reduce", 0.5, 0.25), ("scatter", 0.25, 0.5), ("gather", 0.25, 0.5), ("all_to_all", 0.25, 0.5), ("broadcast", 1.0, 0.5), ("send", 0.0, 1.0), ("all_reduce_coalesced", 1.0, 0.5)],
)  # fmt: skip
def test_two_servers_of_two(name: str, inside: float, outside: float) -> None:
    assert sent(name, 4000, 4, 2) == (4000 * inside, 4000 * outside)
    assert sent(name, 4000, 1, 1) == (0, 0)
    if name == "broadcast":
        assert sent(name, 4000, 2, 2) == (0, 4000 / 2 * 2)


def _call(size: int = 8, step: int = 0, name: str = "all_reduce", ranks: int = 8, **how: Any) -> Collective:  # fmt: skip
    return Collective(name, size, how.get("dtypes", ("float32",)), how.get("reduction", "SUM"), tuple(range(ranks)), step)  # fmt: skip


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_what_comes_once_and_what_each_step(steps: int) -> None:
    calls = [_call(100, 0), *(_call(8, n) for n in range(steps) for _ in range(2)), _call(8, 1), _call(9, steps)]  # fmt: skip
    calls.sort(key=lambda one: one.step)
    seen = Observed(8, steps, calls)
    sizes = [one.bytes for one in seen.last_step()]
    assert sorted(sizes) == {0: [8, 9, 100], 1: [8, 8, 100], 2: [8, 8, 8], 3: [8, 8]}[steps]
    assert sorted(one.bytes for one in seen.before()) == {0: [], 1: [], 2: [100], 3: [8, 100]}[steps]  # fmt: skip


@pytest.mark.parametrize("replicated", [True, False])
@pytest.mark.parametrize("gathers", ["all_gather", "all_reduce"])
@pytest.mark.parametrize("here", [40, 100])
@pytest.mark.parametrize("peak", [0, 1000])
def test_memory_beside_what_is_known(replicated: bool, gathers: str, here: int, peak: int) -> None:
    held = Parameters(here, 100, 30, 60, 20, 50, 25)
    calls = [_call(size, name=gathers) for size in (30, 100, 101)]
    seen = Observed(8, 1, calls, held, peak, True, replicated)
    unit = 100 if gathers == "all_gather" else 25
    assert seen.unit == unit
    beside = (30 if replicated else 0) + (2 * unit if here < 100 and gathers == "all_gather" else 0)
    assert seen.rest == max(peak - here - 30 - 20 - beside, 0)
    found = estimate(seen, M, T)
    assert [one.bytes for one in found.holdings] == [peak, 270 + seen.rest, 210 // 8 + 2 * unit + seen.rest, 210 // 8 + seen.rest]  # fmt: skip
    assert estimate(Observed(8, 1, calls), M, T).holdings == ()
    assert (found.servers, estimate(Observed(9), M, T).servers, found.notes) == (1, 2, ())
    border = Parameters(whole=1, here=found.memory)
    fits = [estimate(Observed(8, parameters=border, peak=found.memory + more), M, T).holdings[0].fits for more in (0, 1)]  # fmt: skip
    assert fits == [True, False]


@pytest.mark.parametrize("sizes", [(8, 9), (9, 8), (8, 8)])
def test_traffic_is_added_up_by_group_and_dtype(sizes: tuple[int, int]) -> None:
    calls = [_call(sizes[0], name="b"), _call(sizes[1], name="a"), _call(1, name="a", dtypes=("int8",)), _call(1, name="a", ranks=16)]  # fmt: skip
    found = estimate(Observed(16, 0, calls), M, T).step
    first = [("b", 8), ("a", 9)] if sizes == (8, 9) else [("a", 8), ("b", 9)] if sizes == (9, 8) else [("a", 8), ("b", 8)]  # fmt: skip
    assert [(one.name, one.bytes) for one in found][:2] == sorted(first, key=lambda one: (-one[1], one[0]))  # fmt: skip
    assert sorted((one.ranks, one.servers) for one in found[2:]) == [(8, 1), (16, 2)]


# One rank.


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> rank.Rank:
    return rank.Rank(4, 2, device=lambda: None)


def test_objects_come_from_rank_0(one: rank.Rank) -> None:
    asked: list[Any] = []
    owner = types.ModuleType("distributed_zq")
    names = ("init_process_group", "new_group", "all_gather_object", "gather_object", "scatter_object_list", "broadcast_object_list")  # fmt: skip
    for name in names:
        setattr(owner, name, lambda *args, name=name, **kwargs: asked.append((name, args, kwargs)))
    other = types.ModuleType("holder_zq")
    other.gather_object, other.new_group = owner.gather_object, lambda: "mine"  # type: ignore[attr-defined]  # fmt: skip
    sys.modules.update({"distributed_zq": owner, "holder_zq": other})
    try:
        one._fake_groups(owner)
    finally:
        del sys.modules["distributed_zq"], sys.modules["holder_zq"]
    assert other.gather_object is owner.gather_object and other.new_group() == "mine"
    one.observed.began = False
    owner.init_process_group("nccl", timeout=5)
    owner.init_process_group("nccl", timeout=None)
    assert one.observed.began is True
    assert [(args, {k: v for k, v in kwargs.items() if k != "store"}) for _, args, kwargs in asked] == [
        (("fake",), {"rank": 0, "world_size": 4, "timeout": 5}), (("fake",), {"rank": 0, "world_size": 4}),
    ]  # fmt: skip
    owner.new_group([0, 1], backend="nccl")
    assert asked[-1] == ("new_group", ([0, 1],), {"backend": "fake"})
    found = [None] * 3
    owner.all_gather_object(found, "x")
    assert found == ["x"] * 3
    gathered = [None] * 2
    owner.gather_object("y", gathered, dst=0)
    owner.gather_object("y")
    assert gathered == ["y"] * 2
    for given, wanted in ((["z", "w"], "z"), (None, None), ([], None)):
        output = ["before"]
        owner.scatter_object_list(output, given, src=0)
        assert output == [wanted]
    kept = ["a"]
    owner.broadcast_object_list(kept, src=1)
    assert kept == ["a"]


def test_as_many_steps_as_were_asked_of_the_first_optimizer(one: rank.Rank) -> None:
    assert one._fake is None and rank.Rank(4, 2, device=print, fake=True)._fake is not None
    first, second = object(), object()
    one._stepped(first, (), {})
    for _ in range(3):
        one._stepped(second, (), {})
    assert one.observed.steps == 1
    with pytest.raises(rank.Enough) as end:
        one._stepped(first, (), {})
    assert (end.value.code, one.observed.steps, len(one._optimizers)) == (0, 2, 2)


@pytest.mark.parametrize("hook", ["named", "plain"])
def test_a_hook_of_the_users_is_told_and_gradients_are_reduced(one: rank.Rank, monkeypatch: pytest.MonkeyPatch, hook: str) -> None:  # fmt: skip
    registered: list[Any] = []

    class Parallel:
        def __init__(self, module: Any) -> None:
            self.process_group = "group"

        def register_comm_hook(self, state: Any, hook: Any) -> None:
            registered.append((state, hook))

    one._fake_hook(Parallel)
    model = Parallel("m")
    assert one.observed.replicated is True
    ((state, reducing),) = registered
    reduced: list[Any] = []
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group: {"group": 4}[group])
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda buffer, group: reduced.append((buffer.tolist(), group)))  # fmt: skip
    bucket = types.SimpleNamespace(buffer=lambda: torch.tensor([8.0]))
    assert reducing(state, bucket).value().tolist() == [2.0]
    assert (state, reduced, reducing.__annotations__) == (None, [([2.0], "group")], {})
    given = (lambda: None) if hook == "plain" else types.SimpleNamespace()
    model.register_comm_hook(None, given)
    name = "<lambda>" if hook == "plain" else "a hook"
    assert one.observed.notes == [f"the communication hook {name} is not applied: gradients are counted uncompressed"]  # fmt: skip
    assert len(registered) == 1


@pytest.mark.parametrize("name", [*rank._FUNCTIONAL, "unknown"])
@pytest.mark.parametrize("by_name", [True, False])
def test_functional_collectives_name_their_group_last(monkeypatch: pytest.MonkeyPatch, name: str, by_name: bool) -> None:  # fmt: skip
    from torch.distributed import distributed_c10d as distributed

    monkeypatch.setattr(distributed, "_resolve_process_group", lambda group: ("group", group))
    tensor = torch.zeros(4, dtype=torch.int16)
    args, kwargs = ((tensor, "sum"), {"group_name": "7"}) if by_name else ((tensor, "sum", 4, "7"), {})  # fmt: skip
    found = rank._functional(name, args, kwargs)
    if name == "unknown":
        assert found is None and rank._of_group("unknown", args) is None
        return
    assert found == (rank._FUNCTIONAL[name][0], tensor, "gather" in name, "SUM", ("group", "7"))
    plain = rank._functional(name, (tensor, 4, "8"), {})
    assert plain is not None and plain[3:] == ("", ("group", "8"))
    monkeypatch.setattr(torch.distributed, "get_process_group_ranks", lambda group: [0, 2, 4])
    made = rank.Rank(4, 2, device=lambda: None)
    made.observed.steps = 5
    made._record("_c10d_functional", name, args, kwargs)
    made._record("_c10d_functional", "unknown", args, kwargs)
    size = 8 * (3 if "gather" in name else 1)
    assert made.observed.collectives == [Collective(rank._FUNCTIONAL[name][0], size, ("int16",), "SUM", (0, 2, 4), 5)]  # fmt: skip
    assert rank._of_group("allreduce_", ([tensor], None)) is None


def test_the_whole_is_what_a_part_is_taken_of_or_brought_into() -> None:
    for name, (collective, place) in rank._OPERATORS.items():
        arguments = [one.name for one in getattr(torch.ops.c10d, name).default._schema.arguments]
        apart = collective.startswith(("reduce_scatter", "scatter", "all_to_all"))
        start = [one.startswith("input" if apart else ("output", "tensors")) for one in arguments]
        assert place == start.index(True), name


def test_parameters_are_counted_once_and_state_with_its_share() -> None:
    weight, frozen = torch.nn.Parameter(torch.zeros(10)), torch.nn.Parameter(torch.zeros(4, dtype=torch.float64), requires_grad=False)  # fmt: skip
    nothing = torch.nn.Parameter(torch.zeros(0))
    optimizers = [types.SimpleNamespace(param_groups=[{"params": [weight, frozen, weight, nothing]}], state={weight: {"a": torch.zeros(10), "b": [torch.zeros(1)], "c": 3}}) for _ in range(2)]  # fmt: skip
    assert rank._parameters(optimizers) == Parameters(72, 72, 40, 40, 44, 44, 40)


@pytest.mark.parametrize("there", [True, False])
def test_the_name_of_a_reduction(there: bool) -> None:
    boxed = types.SimpleNamespace(_has_method=lambda name: there and name == "op", op=lambda: 0)
    assert rank._reduction(boxed) == ("SUM" if there else "")


def test_what_a_launcher_tells_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for world, cards, local in ((64, 8, "8"), (4, 8, "4")):
        found = rank.environment(world, cards)
        assert 1024 <= int(found.pop("MASTER_PORT")) < 1 << 16
        assert found == {"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": local, "MASTER_ADDR": "127.0.0.1", "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}  # fmt: skip
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert rank.environment(2, 8)["OMP_NUM_THREADS"] == "3"


# Shapes in the place of values.


class _Native:
    def __init__(self) -> None:
        self.unknown: set[int] = set()
        self.kept: list[Any] = []

    def mark_unknown(self, tensor: Any) -> None:
        self.unknown.add(tensor.data_ptr())
        self.kept.append(tensor)

    def is_unknown(self, tensor: Any) -> bool:
        return tensor.numel() > 0 and tensor.data_ptr() in self.unknown


A = torch.ops.aten
BIG = torch.zeros(fake.HOST_ELEMENTS + 1)
EDGE, SMALL = torch.zeros(fake.HOST_ELEMENTS), torch.zeros(2)


@pytest.mark.parametrize(
    ("func", "args", "kwargs", "answers"),
    [
        (A.fill_.Scalar, (BIG, 1), {}, True), (A.fill_.Scalar, (EDGE, 1), {}, False), (A.zero_.default, (BIG,), {}, True), (A.add.Tensor, (BIG, BIG), {}, False),
        (A.normal_.default, (BIG,), {}, True), (A.normal_.default, (EDGE,), {}, False), (A.ones_like.default, (BIG,), {}, True), (A.new_full.default, (BIG, [2], 1), {}, True),
        (A.ones.default, ([2],), {}, True), (A.empty.memory_format, ([2],), {}, False), (A.ones.default, ([2],), {"device": "cpu"}, True), (A.ones.default, ([2],), {"device": "meta"}, False),
        (A.ones_like.default, (BIG.to("meta"),), {}, False), (A.ones_like.default, (BIG,), {"device": torch.device("meta")}, False),
        (A.zero_.default, (torch.nn.Parameter(BIG),), {}, True),
    ],
)  # fmt: skip
def test_what_of_the_host_is_left_out(func: Any, args: Any, kwargs: Any, answers: bool) -> None:
    assert (fake.DEVICE_ELEMENTS, fake.HOST_ELEMENTS) == (65_536, 262_144)
    answerer = fake.Fake()
    answerer._native = native = _Native()
    assert answerer.answers(func, args, kwargs) is answers
    native.mark_unknown(known := torch.zeros(3))
    assert answerer.answers(A.add.Tensor, (known, SMALL), {}) is True
    assert answerer.answers(A.add.Tensor, (SMALL, [known]), {}) is True
    assert answerer.answers(A.view.default, (known, [3]), {}) is False


@pytest.mark.parametrize("unknown", [True, False])
def test_an_answer_is_a_shape_or_is_computed(unknown: bool) -> None:
    answerer = fake.Fake()
    answerer._native = native = _Native()
    value = torch.ones(2, 3)
    if unknown:
        native.mark_unknown(value)
    found = answerer.answer(A.sum.dim_IntList, (value, [0]), {})
    assert found.shape == (3,) and native.is_unknown(found) is unknown
    if not unknown:
        assert found.tolist() == [2.0] * 3
    assert answerer._left_out == unknown
    values, indices = answerer.answer(A.max.dim, (value, 1), {})
    assert (values.shape, indices.dtype, native.is_unknown(indices)) == ((2,), torch.int64, unknown)
    given = answerer.answer(A.mul_.Tensor, (value, 2.0), {})
    assert given is value and native.is_unknown(value)
    assert answerer._left_out == 2 * unknown + 1
    large = answerer.answer(A.ones.default, ([fake.HOST_ELEMENTS + 1],), {"pin_memory": False})
    assert native.is_unknown(large) and large.device.type == "cpu"
    small = answerer.answer(A.ones.default, ([fake.HOST_ELEMENTS],), {})
    assert not native.is_unknown(small)
    with pytest.raises(RuntimeError):
        answerer.answer(A.mm.default, (torch.zeros(2, 3), torch.zeros(2, 3)), {})
    assert answerer._made(["text", 3]) == ["text", 3]


@pytest.mark.parametrize(
    ("func", "args", "kwargs", "written"),
    [(A.add_.Tensor, (SMALL, EDGE), {}, [SMALL]), (A.add.Tensor, (SMALL, EDGE), {}, None), (A.add.out, (SMALL, EDGE), {"out": BIG}, None), (A._foreach_add_.Scalar, ([SMALL, EDGE], 1), {}, [SMALL, EDGE]),
     (A._foreach_add_.Scalar, ([], 1), {}, None), (A.add_.Tensor, (), {"self": SMALL, "other": EDGE}, [SMALL]), (A.view.default, (SMALL, [2]), {}, None)],
)  # fmt: skip
def test_what_an_operator_writes(func: Any, args: Any, kwargs: Any, written: list[Any] | None) -> None:  # fmt: skip
    found = fake._written(func._schema, args, kwargs)
    assert (found is None) == (written is None)
    assert [id(one) for one in found or ()] == [id(one) for one in written or ()]
    if func is A.add_.Tensor:
        assert fake._given_back(func._schema, args, kwargs) is SMALL
    given = [(one.name, id(value)) for one, value in fake._arguments(A.add.Tensor._schema, (SMALL, EDGE), {"alpha": BIG})]  # fmt: skip
    assert given == [("self", id(SMALL)), ("other", id(EDGE)), ("alpha", id(BIG))]
    assert [fake._is_view(one._schema) for one in (A.view.default, A.add_.Tensor, A.add.Tensor)] == [True, False, False]  # fmt: skip
    assert [fake._has_device(one._schema) for one in (A.ones.default, A.add.Tensor)] == [True, False]  # fmt: skip
    assert (fake._setting("device", 1), fake._setting("generator", 1), fake._setting("x", 1)) == ("meta", None, 1)  # fmt: skip
    shape = fake._as_shapes([SMALL.double(), (3, torch.Generator())])
    assert (shape[0].device.type, shape[0].dtype, shape[1]) == ("meta", torch.float64, (3, None))


def test_a_checkpoint_of_zeros_is_not_written() -> None:
    answerer = fake.Fake()
    owner = types.ModuleType("owner_zq")
    owner.save = print  # type: ignore[attr-defined]
    answerer._keep_files(owner, "save")
    assert [owner.save(1, a=2) for _ in range(3)] == [None] * 3
    assert answerer._saved == {"owner_zq.save": 3}
    books = {"left_out": 4, "host_peak": 5, "computed": {"a": 1}, "estimated": {"b": 2}, "reads": {"c": 3}}  # fmt: skip
    answerer._native = types.SimpleNamespace(fake_books=lambda: books)
    answerer._left_out = 10
    assert answerer.end() == LeftOut(14, 5, {"a": 1}, {"b": 2}, {"c": 3}, {"owner_zq.save": 3})


@pytest.mark.parametrize(
    ("dtypes", "exact", "note", "found"),
    [
        ("float32", "", "", ("unsupported", "takes float32")), ("float32", "", "a note", ("unsupported", "a note")), ("", "float32", "", ("changed", "is converted to float32 and back")), ("", "float32", "a note", ("changed", "a note")), ("float32 int64", "float32", "", ("changed", "is converted to float32 and back")),
        ("float32 int64", "", "", None), ("", "int64", "", None), ("", "", "a note", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("names", ["all_reduce broadcast", "broadcast"])
def test_which_dtypes_a_collective_takes(dtypes: str, exact: str, note: str, found: Any, names: str) -> None:  # fmt: skip
    rule = types.SimpleNamespace(names=names, dtypes=dtypes, exact=exact, note=note)
    matrix: Any = types.SimpleNamespace(collectives=[rule], row=lambda name: None)
    call = Collective("all_reduce", 1, ("int64",), "SUM", (0,), 0)
    told = [Refusal("all_reduce of int64", *found, "dtypes in collectives")] if found and "all_reduce" in names else []  # fmt: skip
    assert list(_of_one(call, matrix, T, 8)) == told


@pytest.mark.parametrize("status", ["native", "renamed", "unsupported", "changed"])
def test_what_the_rows_of_a_collective_say(status: str) -> None:
    rows = {name: types.SimpleNamespace(name=name, note=f"of {name}") for name in ("torch.distributed.ReduceOp.MAX", "torch.distributed.send")}  # fmt: skip
    matrix: Any = types.SimpleNamespace(collectives=[], row=rows.get, assess=lambda row, target: types.SimpleNamespace(status=status))  # fmt: skip
    told = list(_of_one(Collective("send", 1, (), "MAX", (0,), 0), matrix, T, 8))
    first, second = rows
    assert told == ([] if status in ("native", "renamed") else [Refusal("send with MAX", status, f"of {first}", first), Refusal("send", status, f"of {second}", second)])  # type: ignore[arg-type]  # fmt: skip
