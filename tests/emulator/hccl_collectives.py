"""One rank: every collective on hpu over hccl and on the CPU over gloo, each result equal element by element.

Argument: how the process group is made (``hccl``, ``mixed``, ``default``). Rank 0 prints the counts as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import hpushim.emulator

hpushim.emulator.enable()
warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as functional  # noqa: E402
import torch.distributed.tensor as distributed  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402

HOW = sys.argv[1]
if HOW == "hccl":
    dist.init_process_group("hccl")
elif HOW == "mixed":
    dist.init_process_group("cpu:gloo,hpu:hccl")
else:
    dist.init_process_group()
RANK, WORLD = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")
GROUPS = {"cpu": GLOO, "hpu": dist.group.WORLD}
PAIR = {"cpu": dist.new_group([0, 1], backend="gloo"), "hpu": dist.new_group([0, 1])}

WIDE = ("float32", "bfloat16", "float16", "int32", "int64", "uint8", "int8")
BITS = (*WIDE, "float64", "bool", "float8_e4m3fn", "float8_e5m2")  # moved, not computed with
ONE = ("float32",)

Case = Callable[[str, torch.dtype], Any]
CASES: list[tuple[str, tuple[str, ...], Case]] = []


def case(*dtypes: str) -> Callable[[Case], Case]:
    def keep(function: Case) -> Case:
        CASES.append((function.__name__, dtypes, function))
        return function

    return keep


def mine(where: str, dtype: torch.dtype, size: int = 6, start: int = 0) -> torch.Tensor:
    values = (torch.arange(size) * (RANK + 2) + start) % 8  # fp8 has these numbers
    return values.to(torch.float32).to(dtype).to(where)


def blank(like: torch.Tensor, size: int | None = None) -> torch.Tensor:
    return torch.zeros(size if size is not None else like.numel(), device=like.device).to(
        like.dtype
    )


def reduced(op: Any) -> Case:
    def run(where: str, dtype: torch.dtype) -> Any:
        x = mine(where, dtype)
        dist.all_reduce(x, op, group=GROUPS[where])
        y = mine(where, dtype)
        dist.reduce(y, 1, op, group=GROUPS[where])
        return [x, y if RANK == 1 else None]

    return run


for name in ("SUM", "MAX", "MIN"):
    run = reduced(getattr(dist.ReduceOp, name))
    CASES.append((f"all_reduce and reduce {name}", WIDE, run))


@case(*WIDE)
def all_reduce_async(where: str, dtype: torch.dtype) -> Any:
    xs = [mine(where, dtype, start=i) for i in range(4)]
    works = [dist.all_reduce(x, group=GROUPS[where], async_op=True) for x in xs]
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed()
    return xs


@case(*ONE)
def futures(where: str, dtype: torch.dtype) -> Any:
    x = mine(where, dtype)
    future = dist.all_reduce(x, group=GROUPS[where], async_op=True).get_future()
    doubled = future.then(lambda f: [2 * t for t in f.value()]).wait()
    assert doubled[0].device.type == where
    return doubled


@case(*ONE)
def all_reduce_coalesced(where: str, dtype: torch.dtype) -> Any:
    xs = [mine(where, dtype, 3), mine(where, dtype, 5)]
    dist.all_reduce_coalesced(xs, group=GROUPS[where])
    return xs


@case(*ONE)
def coalescing_manager(where: str, dtype: torch.dtype) -> Any:
    xs = [mine(where, dtype, 3), mine(where, dtype, 5)]
    group = GROUPS[where]
    if where == "cpu":  # gloo has no blocks
        for x in xs:
            dist.all_reduce(x, group=group)
        return xs
    with dist._coalescing_manager(group, torch.device(where), async_ops=True) as manager:
        for x in xs:
            dist.all_reduce(x, group=group)
    manager.wait()
    return xs


@case(*BITS)
def broadcast(where: str, dtype: torch.dtype) -> Any:
    x = mine(where, dtype)
    dist.broadcast(x, 1, group=GROUPS[where])
    y = mine(where, dtype, 1)[0]  # no dimensions
    dist.broadcast(y, 0, group=GROUPS[where])
    return [x, y]


@case(*BITS)
def all_gather(where: str, dtype: torch.dtype) -> Any:
    x = mine(where, dtype, 5)
    parts = [blank(x) for _ in range(WORLD)]
    dist.all_gather(parts, x, group=GROUPS[where])
    return parts


@case(*BITS)
def all_gather_into_tensor(where: str, dtype: torch.dtype) -> Any:
    x = mine(where, dtype, 5)
    out = blank(x, 5 * WORLD)
    work = dist.all_gather_into_tensor(out, x, group=GROUPS[where], async_op=True)
    work.wait()
    return out


@case(*ONE)
def all_gather_into_tensor_coalesced(where: str, dtype: torch.dtype) -> Any:
    xs = [mine(where, dtype, 3), mine(where, dtype, 4)]
    outs = [blank(x, x.numel() * WORLD) for x in xs]
    with dist._coalescing_manager(GROUPS[where]):
        for out, x in zip(outs, xs, strict=True):
            dist.all_gather_into_tensor(out, x, group=GROUPS[where])
    return outs


@case(*(name for name in WIDE if name != "int64"))  # which HCCL refuses here
def reduce_scatter_tensor(where: str, dtype: torch.dtype) -> Any:
    out = blank(mine(where, dtype, 3))
    dist.reduce_scatter_tensor(out, mine(where, dtype, 3 * WORLD), group=GROUPS[where])
    return out


@case("float32", "bfloat16", "float16", "int32")
def reduce_scatter(where: str, dtype: torch.dtype) -> Any:
    out = blank(mine(where, dtype, 3))
    parts = [mine(where, dtype, 3, start=i) for i in range(WORLD)]
    dist.reduce_scatter(out, parts, dist.ReduceOp.MAX, group=GROUPS[where])
    return out


@case(*ONE)
def reduce_scatter_coalesced(where: str, dtype: torch.dtype) -> Any:
    xs = [mine(where, dtype, 2 * WORLD), mine(where, dtype, 3 * WORLD)]
    outs = [blank(x, x.numel() // WORLD) for x in xs]
    with dist._coalescing_manager(GROUPS[where]):
        for out, x in zip(outs, xs, strict=True):
            dist.reduce_scatter_tensor(out, x, group=GROUPS[where])
    return outs


@case(*BITS)
def all_to_all_single(where: str, dtype: torch.dtype) -> Any:
    out = blank(mine(where, dtype, 2 * WORLD))
    dist.all_to_all_single(out, mine(where, dtype, 2 * WORLD), group=GROUPS[where])
    return out


@case(*ONE)
def all_to_all_single_uneven(where: str, dtype: torch.dtype) -> Any:
    send = [RANK + i + 1 for i in range(WORLD)]
    receive = [RANK + i + 1 for i in range(WORLD)]
    out = blank(mine(where, dtype, sum(receive)))
    dist.all_to_all_single(
        out, mine(where, dtype, sum(send)), receive, send, group=GROUPS[where], async_op=True
    ).wait()
    return out


@case(*BITS)
def all_to_all(where: str, dtype: torch.dtype) -> Any:
    # gloo's list form is not in every torch: its single form says the same
    if where == "cpu":
        out = blank(mine(where, dtype, 2 * WORLD))
        dist.all_to_all_single(out, mine(where, dtype, 2 * WORLD), group=GROUPS[where])
        return list(out.chunk(WORLD))
    outs = [blank(mine(where, dtype, 2)) for _ in range(WORLD)]
    dist.all_to_all(outs, list(mine(where, dtype, 2 * WORLD).chunk(WORLD)), group=GROUPS[where])
    return outs


@case(*BITS)
def gather(where: str, dtype: torch.dtype) -> Any:
    x = mine(where, dtype)
    parts = [blank(x) for _ in range(WORLD)] if RANK == 1 else None
    dist.gather(x, parts, 1, group=GROUPS[where])
    return parts or []


@case(*BITS)
def scatter(where: str, dtype: torch.dtype) -> Any:
    out = blank(mine(where, dtype))
    parts = [mine(where, dtype, start=i) for i in range(WORLD)] if RANK == 0 else None
    dist.scatter(out, parts, 0, group=GROUPS[where])
    return out


@case(*BITS)
def send_and_receive(where: str, dtype: torch.dtype) -> Any:
    x = mine(where, dtype)
    if RANK == 0:
        dist.send(x, 1, group=GROUPS[where])
    elif RANK == 1:
        dist.recv(x, 0, group=GROUPS[where])
    return x


@case(*ONE)
def ring(where: str, dtype: torch.dtype) -> Any:
    right, left = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    x, first, second = mine(where, dtype), mine(where, dtype), mine(where, dtype)
    works = [
        dist.isend(x, right, group=GROUPS[where]),
        dist.irecv(first, left, group=GROUPS[where]),
    ]
    for work in works:
        work.wait()
    for work in dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, x, left, GROUPS[where]),
            dist.P2POp(dist.irecv, second, right, GROUPS[where]),
        ]
    ):
        work.wait()
    return [first, second]


@case(*ONE)
def subgroup(where: str, dtype: torch.dtype) -> Any:
    x = mine(where, dtype)
    if RANK < 2:
        dist.all_reduce(x, group=PAIR[where])
    return x


@case(*ONE)
def barriers(where: str, dtype: torch.dtype) -> Any:
    dist.barrier(group=GROUPS[where])
    dist.barrier(group=GROUPS[where], async_op=True).wait()
    return []


@case(*ONE)
def objects(where: str, dtype: torch.dtype) -> Any:
    group = GROUPS[where]
    everyone: list[Any] = [None] * WORLD
    dist.all_gather_object(everyone, {"rank": RANK, "text": "é" * RANK}, group=group)
    told: list[Any] = ["from 1", 1] if RANK == 1 else [None, None]
    dist.broadcast_object_list(told, 1, group=group)
    got: list[Any] = [None]
    dist.scatter_object_list(
        got, [("to", i) for i in range(WORLD)] if RANK == 0 else None, 0, group=group
    )
    collected: list[Any] | None = [None] * WORLD if RANK == 0 else None
    dist.gather_object([RANK], collected, 0, group=group)
    passed: list[Any] = [RANK]
    if RANK == 0:
        dist.send_object_list(["hello"], 1, group=group)
    elif RANK == 1:
        dist.recv_object_list(passed, 0, group=group)
    return [everyone, told, got, collected, passed]


@case("float32", "int32")
def functional_collectives(where: str, dtype: torch.dtype) -> Any:
    group = GROUPS[where]
    x = mine(where, dtype, 2 * WORLD)
    return [
        functional.all_reduce(x, "sum", group) + 0,
        functional.all_gather_tensor(x, 0, group) + 0,
        functional.reduce_scatter_tensor(x, "sum", 0, group) + 0,
        functional.all_to_all_single(x, None, None, group) + 0,
    ]


@case(*ONE)
def device_mesh(where: str, dtype: torch.dtype) -> Any:
    mesh = init_device_mesh(where, (WORLD // 2, 2), mesh_dim_names=("outer", "inner"))
    x = mine(where, dtype)
    dist.all_reduce(x, group=mesh.get_group("inner"))
    whole = torch.arange(8 * WORLD, dtype=dtype, device=where).view(2 * WORLD, 4)
    placed = distribute_tensor(whole, mesh["inner"], [Shard(0)])
    moved = placed.redistribute(placements=[Shard(1)])
    again = (moved * 2).redistribute(placements=[Replicate()])
    return [x, placed.to_local(), moved.to_local(), again.to_local()]


def random_dtensors() -> None:
    """A replicated DTensor draws the same numbers on every rank, a sharded one others on each; all by the seed."""
    mesh = init_device_mesh("hpu", (WORLD,))
    seen = []
    for _ in range(2):
        torch.manual_seed(7)
        same = distributed.rand(4, 4, device_mesh=mesh, placements=[Replicate()])
        split = distributed.randn(2 * WORLD, 4, device_mesh=mesh, placements=[Shard(0)])
        layer = torch.nn.functional.dropout(split, 0.5)
        init = torch.nn.init.normal_(split.clone())
        seen.append([t.full_tensor().cpu() for t in (same, split, layer, init)])
    assert equal(*seen)
    same, split, layer, init = seen[0]
    rows = split.chunk(WORLD)
    assert not any(torch.equal(rows[0], row) for row in rows[1:])
    assert not torch.equal(split, init) and 0 < (layer == 0).sum() < layer.numel()
    others: list[Any] = [None] * WORLD
    dist.all_gather_object(others, seen[0])
    assert all(equal(seen[0], other) for other in others)
    assert torch.hpu.initial_seed() == 7


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor):
        a, b = a.cpu(), b.cpu()
        if a.dtype.itemsize == 1:
            a, b = a.view(torch.uint8), b.view(torch.uint8)
        return torch.equal(a, b)
    return bool(a == b)


def carried_by_gloo(dtype: str) -> bool:
    return not dtype.startswith("float8")


def all_cases() -> int:
    done = 0
    for name, dtypes, function in CASES:
        if name == "device_mesh" and HOW != "mixed":
            continue  # a mesh of CPUs takes the default group, which has no gloo here
        for dtype in dtypes:
            there = getattr(torch, dtype)
            got = function("hpu", there)
            if carried_by_gloo(dtype):
                expected = function("cpu", there)
            else:  # the numbers are whole and small: moved as float32 they are the same
                expected = function("cpu", torch.float32)
                got = [x.cpu().to(torch.float32) for x in (got if isinstance(got, list) else [got])]
                expected = expected if isinstance(expected, list) else [expected]
            assert equal(got, expected), (name, dtype, RANK, got, expected)
            done += 1
    return done


def booleans() -> None:
    for op, expected in ((dist.ReduceOp.SUM, True), (dist.ReduceOp.MIN, False)):
        x = torch.tensor([RANK == 0], device="hpu")
        dist.all_reduce(x, op)
        assert x.view(torch.uint8).item() == int(expected), x


def refused(kind: type[BaseException], needed: str, run: Callable[[], Any]) -> None:
    try:
        run()
    except kind as error:
        assert needed in str(error), error
        return
    raise AssertionError(f"not refused: {needed}")


def refusals() -> int:
    x = torch.ones(1, device="hpu")
    refused(ValueError, "GLOO", dist.monitored_barrier)
    refused(NotImplementedError, "PREMUL_SUM", lambda: dist.all_reduce(x, dist._make_nccl_premul_sum(0.5)))  # fmt: skip
    manager = dist._coalescing_manager(dist.group.WORLD, torch.device("hpu"))
    with manager:
        backend = dist.group.WORLD._get_backend(torch.device("hpu"))
        refused(RuntimeError, "does not nest", backend._start_coalescing)
    if HOW == "mixed":
        return 3
    host = torch.ones(2)
    lists = [host.clone() for _ in range(WORLD)]
    for run in (
        lambda: dist.all_reduce(host),
        lambda: dist.broadcast(host, 0),
        lambda: dist.all_gather(lists, host),
        lambda: dist.all_gather_into_tensor(torch.ones(2 * WORLD), host),
        lambda: dist.reduce_scatter(host, lists),
        lambda: dist.all_to_all(lists, lists),
        lambda: dist.send(host, (RANK + 1) % WORLD),
        lambda: functional.all_reduce(host, "sum", dist.group.WORLD),
    ):
        refused(RuntimeError, "move the tensor to hpu, or use a gloo group", run)
        refused(RuntimeError, "hccl", run)
        refused(RuntimeError, __file__, run)
    return 11


count = all_cases()
booleans()
random_dtensors()
count_refused = refusals()
if RANK == 0:
    print(json.dumps({"equal": count, "refused": count_refused, "backend": dist.get_backend()}))
dist.destroy_process_group()
