"""One rank of a distributed run: collectives, then DDP and FSDP training; rank 0 saves the weights."""

from __future__ import annotations

import sys

import hpushim.emulator

hpushim.emulator.enable()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

WHERE, TARGET = sys.argv[1], sys.argv[2]
ON_HPU = WHERE == "hpu"
dist.init_process_group("hccl" if ON_HPU else "gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()


def full(size: int, value: float) -> torch.Tensor:
    return torch.full((size,), float(value), device=WHERE)


def same(got: torch.Tensor, expected: list[float]) -> None:
    assert got.device.type == WHERE and got.tolist() == expected, (got, expected)


def collectives() -> None:
    everyone = list(range(WORLD))
    x = full(2, RANK)
    dist.all_reduce(x)
    same(x, [sum(everyone)] * 2)
    x = full(1, RANK)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    same(x, [WORLD - 1])
    x = full(2, RANK)
    dist.broadcast(x, 1)
    same(x, [1, 1])
    x = full(1, 1)
    dist.reduce(x, 0)
    if RANK == 0:
        same(x, [WORLD])
    parts = [full(1, -1) for _ in everyone]
    dist.all_gather(parts, full(1, RANK))
    same(torch.cat(parts), everyone)
    x = full(WORLD, -1)
    dist.all_gather_into_tensor(x, full(1, RANK))
    same(x, everyone)
    x = full(1, -1)
    dist.reduce_scatter_tensor(x, torch.arange(float(WORLD), device=WHERE))
    same(x, [RANK * WORLD])
    x = full(1, -1)
    dist.reduce_scatter(x, [full(1, i) for i in everyone])
    same(x, [RANK * WORLD])
    x = full(WORLD, -1)
    dist.all_to_all_single(x, full(WORLD, RANK))
    same(x, everyone)
    if ON_HPU:  # gloo has no such collective of its own
        parts = [full(2, -1) for _ in everyone]
        dist.all_to_all(parts, [full(2, 10 * RANK + i) for i in everyone])
        same(torch.cat(parts)[::2], [10 * i + RANK for i in everyone])
    gathered = [full(1, -1) for _ in everyone] if RANK == 0 else None
    dist.gather(full(1, RANK), gathered, 0)
    if gathered:
        same(torch.cat(gathered), everyone)
    x = full(1, -1)
    dist.scatter(x, [full(1, i) for i in everyone] if RANK == 0 else None, 0)
    same(x, [RANK])
    if RANK == 0:
        dist.send(full(2, 7), 1)
    elif RANK == 1:
        x = full(2, -1)
        dist.recv(x, 0)
        same(x, [7, 7])
    right, left = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    x = full(1, -1)
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, full(1, RANK), right), dist.P2POp(dist.irecv, x, left)]
    ):
        work.wait()
    same(x, [left])
    objects: list[object] = [None] * WORLD
    dist.all_gather_object(objects, {"rank": RANK})
    assert objects == [{"rank": i} for i in everyone]
    told: list[object] = ["from 0" if RANK == 0 else None]
    dist.broadcast_object_list(told, 0)
    assert told == ["from 0"]
    dist.barrier()


def asynchronous() -> None:
    x = full(3, 1)
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future()
    work.wait()
    assert work.is_completed()
    result = future.wait()
    same(result[0] if isinstance(result, list) else result, [WORLD] * 3)
    chained = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    same(chained.wait(), [2 * WORLD * WORLD] * 3)


def groups() -> None:
    pair = dist.new_group([0, 1])
    if RANK < 2:
        x = full(1, 1)
        dist.all_reduce(x, group=pair)
        same(x, [2])
    if ON_HPU:
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            assert "cpu" in str(error)
        else:
            raise AssertionError("a CPU tensor over hccl must be refused")
        host = dist.new_group(backend="gloo")
        y = torch.ones(1)
        dist.all_reduce(y, group=host)
        assert y.item() == WORLD


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(WHERE)


def train(net: nn.Module) -> None:
    data = torch.randn(20, WORLD, 5, 8, generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)
    for step in range(20):
        optimizer.zero_grad()
        net(data[step, RANK].to(WHERE)).pow(2).mean().backward()
        optimizer.step()


def weights() -> dict[str, list[torch.Tensor]]:
    found = {}
    net = model()
    train(DistributedDataParallel(net))
    found["ddp"] = [p.detach().cpu() for p in net.parameters()]
    net = model()
    train(DistributedDataParallel(net, gradient_as_bucket_view=True, static_graph=True))
    found["ddp_views"] = [p.detach().cpu() for p in net.parameters()]
    net = model()
    mesh = init_device_mesh(WHERE, (WORLD,))
    fully_shard(net[0], mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(net)
    found["fsdp2"] = [p.full_tensor().detach().cpu() for p in net.parameters()]
    if ON_HPU:  # FSDP1 refuses to run on CPU: its weights are compared with DDP's
        sharded = FullyShardedDataParallel(
            model(), use_orig_params=True, device_id=torch.device("hpu", 0)
        )
        train(sharded)
        with FullyShardedDataParallel.summon_full_params(sharded):
            found["fsdp1"] = [p.detach().cpu() for p in sharded.parameters()]
    return found


collectives()
asynchronous()
groups()
result = weights()
mine = torch.cat([p.flatten() for p in result["ddp"]]).to(WHERE)
others = [torch.empty_like(mine) for _ in range(WORLD)]
dist.all_gather(others, mine)
assert all(torch.equal(mine, other) for other in others), "the ranks disagree"
if RANK == 0:
    torch.save(result, TARGET)
dist.destroy_process_group()
