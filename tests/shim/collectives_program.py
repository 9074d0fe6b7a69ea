"""One of two ranks under the shim: averages over "NCCL" in every form; rank 0 prints what each gave."""

from __future__ import annotations

import json
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.distributed import tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

warnings.simplefilter("ignore")
dist.init_process_group("nccl")
RANK = dist.get_rank()
AVG = dist.ReduceOp.AVG
found: dict[str, Any] = {}

for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.int64):
    name = str(dtype).removeprefix("torch.")
    given = torch.tensor([3 + 2 * RANK, -5 - RANK], device="cuda", dtype=dtype)

    x = given.clone()
    dist.all_reduce(x, AVG)
    found[f"all_reduce {name}"] = x.tolist()

    x = given.clone()
    work = dist.all_reduce(x, op=AVG, async_op=True)
    assert work is not None
    work.wait()
    work.wait()
    found[f"awaited {name}"] = x.tolist()

    x = given.clone()
    future = dist.all_reduce(x, op=AVG, async_op=True).get_future()  # type: ignore[union-attr]
    future.wait()
    found[f"future {name}"] = x.tolist()

    x = given.clone()
    dist.reduce(x, dst=1, op=AVG)
    dist.broadcast(x, 1)
    found[f"reduce {name}"] = x.tolist()

    found[f"functional {name}"] = functional.all_reduce(given, "avg", dist.group.WORLD).tolist()
    again = functional.all_reduce(given, reduceOp="AVG", group=dist.group.WORLD)
    assert again.tolist() == found[f"functional {name}"]
    if dtype != torch.int64:  # reduce_scatter over hccl takes no int64
        halves = [torch.empty(1, device="cuda", dtype=dtype) for _ in range(2)]
        dist.reduce_scatter(halves[0], list(given.split(1)), op=AVG)
        dist.all_gather(halves, halves[0].clone())
        found[f"reduce_scatter {name}"] = torch.cat(halves).tolist()
        half = torch.empty(1, device="cuda", dtype=dtype)
        dist.reduce_scatter_tensor(half, given, op=AVG)
        dist.all_gather(halves, half)
        found[f"reduce_scatter_tensor {name}"] = torch.cat(halves).tolist()

group = dist.new_group([0, 1], backend="gloo")
x = torch.tensor([1.0 + RANK])
dist.all_reduce(x, dist.ReduceOp.SUM, group=group)
found["gloo"] = x.tolist()
x = torch.tensor([2 + RANK], device="cuda")
dist.all_reduce(x, dist.ReduceOp.SUM, group=group, async_op=True).wait()  # type: ignore[union-attr]
parts = [torch.zeros(1, device="cuda") for _ in range(2)]
dist.all_gather(parts, torch.tensor([1.0 + RANK], device="cuda"), group=group)
assert [p.item() for p in parts] == [1.0, 2.0]
found["gloo of the card"] = x.tolist()

mesh = init_device_mesh("cuda", (2,))
spread = tensor.rand(
    4, device_mesh=mesh, placements=[tensor.Shard(0)]
)  # torch calls rank 1's card hpu:1
found["drawn"] = len(set(spread.full_tensor().tolist()))
found["mean"] = (
    tensor.ones(4, device_mesh=mesh, placements=[tensor.Shard(0)]).mean().full_tensor().item()
)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def train(model: nn.Module, inputs: torch.Tensor) -> float:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss = torch.zeros(())
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
    loss = loss.detach().clone()
    if loss.device.type != "cpu":
        dist.all_reduce(loss, AVG)
    return loss.item()


torch.manual_seed(1)
batch = torch.randn(8, 4)
mine = batch.chunk(2)[RANK].cuda()
found["loss plain"] = train(net(), batch)
found["loss ddp"] = train(DistributedDataParallel(net().cuda(), device_ids=[0]), mine)
found["loss fsdp1"] = train(FullyShardedDataParallel(net().cuda(), device_id=0), mine)
sharded = net().cuda()
for layer in sharded:  # type: ignore[attr-defined]
    if isinstance(layer, nn.Linear):
        fully_shard(layer)
found["loss fsdp2"] = train(fully_shard(sharded), mine)

if RANK == 0:
    print(json.dumps(found))
dist.barrier()
dist.destroy_process_group()
