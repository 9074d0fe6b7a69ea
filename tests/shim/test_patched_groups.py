"""What stands in the place of torch's collectives, groups and wrappers, called by itself with every tensor taken as the device's."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives, distributed_c10d

from hpushim import callers
from hpushim.errors import UnsupportedOnHpu
from hpushim.shim import devices, log, policy, vendor
from hpushim.shim.patches import collectives, cuda, distributed, environment, typed

AVG, SUM = dist.ReduceOp.AVG, dist.ReduceOp.SUM


class World:
    """Four ranks, of which this is the second, and what is said."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.said: list[Any] = []
        self.asked: list[Any] = []
        self.backend = ""
        self.ours = True
        for level in ("note", "warn"):
            patch.setattr(log, level, lambda code, text, level=level: self.said.append((level, code)))  # fmt: skip
        patch.setattr(devices, "is_hpu", lambda device: self.ours and isinstance(device, torch.device))  # fmt: skip
        patch.setattr(devices, "report_requested", self.asked.append)
        patch.setattr(devices, "choose_device_of_rank", lambda: self.asked.append("rank"))
        patch.setattr(devices, "choose_device", self.asked.append)
        patch.setattr(vendor, "register_hccl", lambda: self.asked.append("hccl"))
        patch.setattr(environment, "warn_of_nccl", lambda: self.asked.append("nccl"))
        patch.setattr(dist, "is_initialized", lambda: bool(self.backend))
        patch.setattr(dist, "get_backend", lambda group=None: self.backend)
        patch.setattr(dist, "get_world_size", lambda group=None: 4)
        patch.setattr(dist, "get_rank", lambda group=None: 1)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


class Work:
    def __init__(self) -> None:
        self.done = False
        self.name = "mine"

    def wait(self, *args: Any) -> str:
        self.done = True
        return "waited"

    def synchronize(self) -> None:
        self.done = True

    def is_completed(self) -> bool:
        return self.done

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result("result")
        return future


def _reduce(seen: list[Any], work: Any = None) -> Any:
    def original(first: Any, *args: Any, **kwargs: Any) -> Any:
        for tensor in first if isinstance(first, list) else [first]:
            tensor.mul_(8)
        seen.append((args, kwargs))
        return work

    return original


@pytest.mark.parametrize("op", ["position", "name", "kind", "sum", "none"])
@pytest.mark.parametrize("tensors", ["one", "list", "integers"])
@pytest.mark.parametrize("ours", [True, False])
def test_an_average_is_a_sum_that_is_divided(world: World, op: str, tensors: str, ours: bool) -> None:  # fmt: skip
    world.ours = ours
    given: Any = torch.tensor([3, -3]) if tensors == "integers" else torch.ones(2)
    given = [given, given.clone()] if tensors == "list" else given
    args = {"position": (AVG,), "kind": (dist.ReduceOp(AVG),), "sum": (SUM,)}.get(op, ())
    kwargs = {"op": AVG} if op == "name" else {}
    seen: list[Any] = []
    assert collectives.averaged(_reduce(seen), given, *args, **kwargs) is None
    average = ours and op in ("position", "name", "kind")
    first = given[0] if tensors == "list" else given
    wanted = [24, -24] if tensors == "integers" else [8.0, 8.0]
    assert first.tolist() == ([one / 4 for one in wanted] if average else wanted)
    ((positions, names),) = seen
    asked = positions[0] if positions else names.get("op")
    assert (asked == SUM) is (average or op == "sum") and (asked is None) is (op == "none")
    assert collectives._results((), {"output": torch.ones(1)}) and not collectives._results((), {"other": 1})  # fmt: skip
    assert collectives._rounding(torch.ones(1, dtype=torch.complex64)) is None
    odd = torch.tensor([-7])
    assert (collectives._divided(None, [odd], 2), odd.tolist()) == (None, [-3])


@pytest.mark.parametrize("way", ["wait", "synchronize", "is_completed", "get_future"])
def test_what_is_waited_for_is_divided_once(world: World, way: str) -> None:
    tensor, work = torch.ones(2), Work()
    made = collectives.averaged(_reduce([], work), tensor, op=AVG, async_op=True)
    assert (tensor.tolist(), made.name) == ([8.0, 8.0], "mine")
    assert made.is_completed() is False and tensor.tolist() == [8.0, 8.0]
    if way == "is_completed":
        work.done = True
    found = getattr(made, way)()
    assert {"wait": found == "waited", "synchronize": found is None, "is_completed": found is True, "get_future": way != "get_future" or found.wait() == "result"}[way]  # fmt: skip
    assert made.wait() == "waited" and tensor.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(("kwargs", "args", "here"), [({"dst": 1}, (), True), ({"dst": 0}, (), False), ({}, (1,), True), ({}, (0,), False), ({"group_dst": 1}, (), True), ({"group_dst": 0, "dst": 1}, (), False)])  # fmt: skip
def test_one_rank_gets_the_average(world: World, kwargs: Any, args: Any, here: bool) -> None:
    tensor = torch.ones(2)
    collectives.reduced_to_one(_reduce([]), tensor, *args, op=AVG, **kwargs)
    assert tensor.tolist() == ([2.0] * 2 if here else [8.0] * 2)
    plain = torch.ones(2)
    collectives.reduced_to_one(_reduce([]), plain, *args, **kwargs)
    assert plain.tolist() == [8.0] * 2
    distributed_c10d._world.pg_coalesce_state[dist.group.WORLD] = []
    try:
        kept = torch.ones(2)
        collectives.averaged(_reduce([]), kept, op=AVG)
        assert kept.tolist() == [8.0] * 2
    finally:
        del distributed_c10d._world.pg_coalesce_state[dist.group.WORLD]


@pytest.mark.parametrize("backend", ["", "hccl", "gloo"])
@pytest.mark.parametrize("gives", [None, 3, "work"])
@pytest.mark.parametrize("ours", [True, False])
def test_gloo_gets_copies_of_the_host(world: World, monkeypatch: pytest.MonkeyPatch, backend: str, gives: Any, ours: bool) -> None:  # fmt: skip
    world.backend, world.ours = backend, ours
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: self.clone())
    tensor, seen = torch.ones(2), []
    work = Work() if gives == "work" else gives

    def original(one: Any, others: Any, **named: Any) -> Any:
        seen.append(one)
        assert others[0] is one and named["same"] is one
        one.mul_(3)
        return work

    found = collectives.carried(original, tensor, [tensor], same=tensor)
    copied = backend == "gloo" and ours
    assert (seen[0] is tensor, world.said) == (not copied, [("warn", "HPU313")] * copied)
    if copied and gives == "work":
        assert tensor.tolist() == [1.0, 1.0] and found.wait() == "waited"
    else:
        assert found is work
    assert tensor.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("place", [2, 3])
@pytest.mark.parametrize("op", ["avg", "AVG", "sum"])
@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("by_name", [True, False])
def test_functional_forms_divide_what_they_return(world: World, monkeypatch: pytest.MonkeyPatch, place: int, op: str, several: bool, by_name: bool) -> None:  # fmt: skip
    monkeypatch.setattr(_functional_collectives, "_resolve_group_name", lambda group, tag: f"{group}{tag}")  # fmt: skip
    monkeypatch.setattr(distributed_c10d, "_get_group_size_by_name", lambda name: {"g": 2, "gt": 4}[name])  # fmt: skip
    function = collectives.functional_average if place == 2 else collectives.functional_scattered
    given: Any = [torch.tensor([5]), torch.ones(1)] if several else torch.tensor([5])
    seen: list[Any] = []

    def original(*args: Any, **kwargs: Any) -> Any:
        seen.append((args[1:], kwargs))
        return given

    middle = () if place == 2 else (0,)
    args = () if by_name else (given, op, *middle, "g")
    kwargs = {"inputs" if several else "self": given, "reduceOp": op, "group": "g", "tag": "t"} if by_name else {}  # fmt: skip
    found = function(original, *args, **kwargs)
    size = (4 if by_name else 2) if op.lower() == "avg" else 1
    assert (found[0] if several else found).tolist() == [5 // size]
    assert not several or found[1].tolist() == [1 / size]
    ((positions, names),) = seen
    assert (names["reduceOp"] if by_name else positions[0]) == ("sum" if size > 1 else op)


# Groups.


@pytest.mark.parametrize(
    ("backend", "named"),
    [("nccl", "hccl"), ("NCCL", "hccl"), ("gloo", "gloo"), ("cpu:gloo,cuda:nccl", "cpu:gloo,hpu:hccl"), ("cuda:nccl", "hpu:hccl"), ("cpu:gloo, cuda:gloo", "cpu:gloo, cuda:gloo"), ("nccl,gloo", "hccl,gloo"), ("undefined", "undefined")],
)  # fmt: skip
def test_nccl_is_hccl_in_every_spelling(world: World, monkeypatch: pytest.MonkeyPatch, backend: str, named: str) -> None:  # fmt: skip
    monkeypatch.setattr(distributed, "_requested_nccl", False)
    changed = backend != named
    assert (distributed.backend_text(backend), distributed.translated(backend)) == (named, named)
    assert (distributed._requested_nccl, world.asked) == (changed, ["nccl", "hccl"] * changed)
    assert distributed.is_backend_available(lambda asked: asked == "gloo", backend) is (changed or backend == "gloo")  # fmt: skip
    assert distributed.translated(3) == 3 and distributed.translated(None) is None
    assert world.asked == ["nccl", "hccl"] * changed + ["hccl"]
    got: list[Any] = []
    options = type("NCCL_Options", (), {})()
    world.asked.clear()
    distributed.init_process_group(lambda *a, **k: got.append((a, k)), backend, device_id=3, pg_options=options)  # fmt: skip
    distributed.init_process_group(lambda *a, **k: got.append((a, k)), init_method="nccl", pg_options="other")  # fmt: skip
    assert got == [((named,), {"device_id": None, "pg_options": None}), ((), {"backend": None, "init_method": "nccl", "pg_options": "other"})]  # fmt: skip
    assert world.said == [("note", "HPU301"), ("warn", "HPU304")] and world.asked.count("rank") == 1


@pytest.mark.parametrize("caller", ["mine", "torch.x"])
@pytest.mark.parametrize("ranks", [None, [0, 1], [0, 1, 2, 3]])
def test_a_group_is_made_without_what_hccl_has_not(world: World, monkeypatch: pytest.MonkeyPatch, caller: str, ranks: Any) -> None:  # fmt: skip
    monkeypatch.setattr(callers, "outside", lambda *own: caller)
    given = {"backend": "nccl", "group_desc": "d", "device_id": 3, "use_local_synchronization": True}  # fmt: skip
    own = caller == "mine"
    if own and ranks == [0, 1]:
        with pytest.raises(UnsupportedOnHpu, match="every rank must call new_group"):
            distributed.new_group(lambda *a, **k: (a, k), ranks, **given)
        given["use_local_synchronization"] = False
    found = distributed.new_group(lambda *a, **k: (a, k), ranks, "NCCL", "gloo", **given)
    kept = {} if own else {"group_desc": "d", "use_local_synchronization": True}
    assert found == ((ranks, "hccl", "gloo"), {"backend": "hccl", **kept})
    assert world.said == [("note", "HPU301")] * ((3 if given["use_local_synchronization"] else 2) * own)  # fmt: skip


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize("backend", ["hccl", "gloo"])
def test_code_that_asked_for_nccl_hears_nccl(world: World, monkeypatch: pytest.MonkeyPatch, asked: bool, yes: bool, backend: str) -> None:  # fmt: skip
    monkeypatch.setattr(distributed, "_requested_nccl", asked)
    monkeypatch.setattr(policy, "answers_yes", lambda *_: yes)
    assert distributed.get_backend(lambda: backend) == ("nccl" if asked and yes and backend == "hccl" else backend)  # fmt: skip
    assert distributed.is_nccl_available(print) is yes
    torch_hpu = types.SimpleNamespace(device_count=lambda: 8.0)
    monkeypatch.setattr(torch, "hpu", torch_hpu, raising=False)
    assert (distributed.new_subgroups(lambda *a: a), distributed.new_subgroups(lambda *a: a, 2, "x")) == ((4,), (2, "x"))  # fmt: skip
    assert distributed.barrier(lambda **k: k, device_ids=[3]) == {"device_ids": None}
    assert distributed.barrier(lambda **k: k, device_ids=None, x=1) == {"device_ids": None, "x": 1}
    assert distributed.device_mesh(lambda *a, **k: (a, k), "cuda", (2,), device_type="cuda") == (("hpu", (2,)), {"device_type": "hpu"})  # fmt: skip
    assert distributed.process_group_nccl("there") == "there"
    options = distributed.process_group_nccl(distributed.MISSING).Options(is_high=True)
    assert (options.is_high, vars(options.config)) == (True, {})
    with pytest.raises(UnsupportedOnHpu, match="HPU304"):
        distributed.ProcessGroupNCCL()
    assert cuda.is_available(print) is cuda._is_compiled(print) is yes
    assert cuda.device_count(print) == (8 if yes else 0)


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize(("ids", "output"), [(None, None), ([], None), ([2], None), ([2], 3)])
@pytest.mark.parametrize("backend", ["hccl", "gloo"])
def test_wrappers_take_the_one_device(world: World, monkeypatch: pytest.MonkeyPatch, ours: bool, ids: Any, output: Any, backend: str) -> None:  # fmt: skip
    world.ours, world.backend = ours, backend
    monkeypatch.setattr(dist, "new_group", lambda backend: f"new {backend}")
    module, made = torch.nn.Linear(1, 1), types.SimpleNamespace()
    got: list[Any] = []
    distributed.ddp_init(lambda *a, **k: got.append((a[1:], k)), made, module, ids, output, "more")
    group = {"process_group": "new hccl" if backend == "gloo" else None} if ours else {}
    assert got == [((module, None if ours else ids, None if ours else output, "more"), group)]
    assert getattr(made, "device_ids", None) == ([0] if ours and ids else None)
    assert getattr(made, "use_side_stream_for_tensor_copies", None) is (False if ours and ids else None)  # fmt: skip
    assert [one for one in world.asked if one != "hccl"] == ([*(ids or ()), output] if ours else [])
    assert world.said == [("warn", "HPU313")] * (ours and backend == "gloo")
    if ours and backend == "gloo":
        with pytest.raises(UnsupportedOnHpu, match="gloo group of some ranks"):
            distributed._group_for_devices("part")
    world.said.clear()
    world.asked.clear()
    distributed.data_parallel_init(lambda *a, **k: got.append((a[1:], k)), made, module, ids, output, "more")  # fmt: skip
    assert got[1] == ((module, [0], 0, "more"), {})
    assert (world.said, world.asked) == ([("warn", "HPU308")] * (ids is None), [*(ids or ()), output])  # fmt: skip
    with pytest.raises(UnsupportedOnHpu, match="HPU308"):
        distributed.data_parallel_init(print, made, module, [0, 1])
    distributed.fsdp_init(lambda *a, **k: got.append((a[1:], k)), made, module, device_id=ids)
    assert got[2] == ((module,), {"device_id": None if ids is None else devices.target()})


@pytest.mark.parametrize("ours", [True, False])
def test_hooks_that_compress_are_refused(world: World, ours: bool) -> None:
    world.ours = ours
    model = torch.nn.Linear(1, 1)

    def fp16_compress_hook() -> None: ...

    def other() -> None: ...

    refused = [fp16_compress_hook, types.SimpleNamespace(name="BF16_COMPRESS_HOOK"), types.SimpleNamespace(name="fp16_compress")]  # fmt: skip
    for hook in (*refused, other, types.SimpleNamespace(name=lambda: "fp16_compress"), None):
        for how in ({}, {"hook": hook}):
            args = (None,) if how else (None, hook)
            if ours and hook in refused:
                with pytest.raises(UnsupportedOnHpu, match="HPU313"):
                    distributed.comm_hook(print, model, *args, **how)
            else:
                assert distributed.comm_hook(lambda *a, **k: (a, k), model, *args, **how) == ((model, *args), how)  # fmt: skip


# torch.cuda.


def test_what_torch_cuda_answers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    hpu = types.SimpleNamespace(synchronize=lambda: waited.append(1), get_device_name=lambda: "GAUDI")  # fmt: skip
    monkeypatch.setattr(torch, "hpu", hpu, raising=False)
    assert (cuda.current_device(print), cuda.synchronize(print), cuda.get_device_name(print), waited) == (0, None, "GAUDI", [1])  # fmt: skip
    assert (cuda.init(print), cuda.is_initialized(print), cuda._lazy_call(print, lambda: waited.append(2)), waited) == (None, True, None, [1, 2])  # fmt: skip
    assert [cuda.exchange_device(print, index) for index in (-1, 0, 3)] == [-1, 0, 0]
    assert (cuda.is_bf16_supported(print), cuda.is_tf32_supported(print), cuda.get_arch_list(print), cuda.get_gencode_flags(print), cuda.can_device_access_peer(print, 0, 0)) == (True, False, [], "", False)  # fmt: skip
    world.asked.clear()
    for device in (2, "cuda:3", 0, "cuda", -1):
        cuda.set_device(print, device)
    chosen = [one for one in world.asked if isinstance(one, int)]
    assert chosen.count(-1) <= 1 and {2, 3, 0} <= {*chosen}
    for given, read, said in (("warn", 1, 1), ("error", 2, 1), (0, 0, 0), ("default", 0, 0), (2, 2, 1)):  # fmt: skip
        world.said.clear()
        cuda.set_sync_debug_mode(print, given)
        assert (cuda.get_sync_debug_mode(print), world.said) == (read, [("warn", "HPU414")] * said)
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        cuda.set_sync_debug_mode(print, "other")
    cuda.set_sync_debug_mode(print, 0)
    one = types.SimpleNamespace()
    for function, args in ((cuda.device_context_init, (0,)), (cuda.device_of_init, (None,))):
        one.idx = one.prev_idx = 7
        function(print, one, *args)
        assert (one.idx, one.prev_idx) == (0, -1)
    one.prev_idx = 7
    assert (cuda.device_context_enter(print, one), one.prev_idx, cuda.device_context_exit(print, one)) == (None, -1, False)  # fmt: skip
    assert (cuda.available_device_type(print), cuda.all_device_indices(print), cuda.device_attribute(print, lambda module: module.__name__)) == ("hpu", [0], "torch.cuda")  # fmt: skip
    own = lambda device, *args: ("own", device, *args)  # noqa: E731
    assert [cuda.get_device_index(own, device, True) for device in (3, torch.device("cpu"), "cpu", "odd")] == [("own", 3, True), 0, 0, ("own", "odd", True)]  # fmt: skip
    assert [cuda.get_cuda_device_index(own, device) for device in (None, torch.device("cpu"), 3)] == [0, 0, ("own", 3)]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("torch.cuda.FloatTensor", torch.float32), ("torch.cuda.HalfTensor", torch.float16), ("torch.cuda.BoolTensor", torch.bool), ("torch.FloatTensor", None), ("torch.cuda.sparse.FloatTensor", None), (torch.cuda.LongTensor, torch.int64), (torch.LongTensor, None), (torch.float32, None), (3, None)],
)  # fmt: skip
def test_the_dtype_of_a_typed_tensor(kind: Any, dtype: Any) -> None:
    assert typed._dtype_of(kind) is dtype
    assert dtype is not None or typed.tensor_type(lambda *a, **k: ("own", a[1:], k), torch.ones(1), kind, True) == ("own", (kind, True), {})  # fmt: skip
    assert typed.tensor_type(lambda self: "torch.hpu.FloatTensor", torch.ones(1)) == "torch.cuda.FloatTensor"  # fmt: skip
    moved: list[Any] = []
    module = types.SimpleNamespace(_apply=lambda function: function(types.SimpleNamespace(to=lambda *a: moved.append(a))))  # fmt: skip
    found = typed.module_type(lambda self, kind: "own", module, kind)
    assert (found, moved) == (("own", []) if dtype is None else (None, [(devices.INDEXED, dtype)]))
    with pytest.raises(UnsupportedOnHpu, match="HPU124"):
        typed.sparse_tensor(print, torch.Tensor)


@pytest.mark.parametrize("more", [(3,), (torch.ones(1),)])
def test_a_typed_tensor_takes_a_tensor_alone(more: tuple[Any, ...]) -> None:
    make, given = typed._constructor("FloatTensor"), torch.ones(2)
    assert make(print, torch.FloatTensor, given).data_ptr() == given.data_ptr()
    with pytest.raises(TypeError):
        make(print, torch.FloatTensor, given, *more)


@pytest.mark.parametrize(
    ("args", "kwargs", "waits"),
    [((), {}, True), ((False,), {}, True), ((True,), {}, False), ((), {"non_blocking": True}, False), ((), {"non_blocking": False}, True)],
)  # fmt: skip
def test_a_type_of_cuda_moves_and_casts(args: tuple[Any, ...], kwargs: dict[str, Any], waits: bool) -> None:  # fmt: skip
    asked: list[Any] = []
    tensor = types.SimpleNamespace(to=lambda *given, **how: asked.append((given, how)) or "moved")
    made = [typed.tensor_type(None, tensor, "torch.cuda.HalfTensor", *args, **kwargs)]  # type: ignore[arg-type]
    if not args:
        made.append(typed.tensor_type(None, tensor, dtype="torch.cuda.HalfTensor", **kwargs))  # type: ignore[arg-type]
    assert made == ["moved"] * len(made)
    assert asked == [((typed.devices.INDEXED, torch.float16), {"non_blocking": not waits})] * len(made)  # fmt: skip
