"""One rank: 20 steps of training for each way to spread it, on hpu over hccl or on the CPU over gloo.

Arguments: ``hpu`` or ``cpu``, the file that rank 0 saves the weights to, a folder for checkpoints, and names of ways (all
without names). What torch refuses on this device is saved as the text of its refusal.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

WHERE, TARGET, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
if WHERE == "hpu":  # the other run is torch alone
    import hpushim.emulator

    hpushim.emulator.enable()
warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed import fsdp  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook  # noqa: E402
from torch.distributed.algorithms.join import Join  # noqa: E402
from torch.distributed.checkpoint.state_dict import get_model_state_dict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard  # noqa: E402
from torch.distributed.tensor import Replicate, Shard  # noqa: E402
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

DEVICE = torch.device(WHERE)
dist.init_process_group("hccl" if WHERE == "hpu" else "gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
STEPS = int(os.environ.get("STEPS", "20"))

Weights = list[torch.Tensor]
WAYS: dict[str, Callable[[], Weights]] = {}


def way(function: Callable[[], Weights]) -> Callable[[], Weights]:
    WAYS[function.__name__] = function
    return function


def model() -> nn.Sequential:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16))
    return nn.Sequential(block, nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).to(DEVICE)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.norm(x))))


class Branches(nn.Module):
    """Every other step leaves one branch without gradients."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right = nn.Linear(8, 4), nn.Linear(8, 4)
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        branch = self.left if self.step % 2 else self.right
        return branch(x)


def batch(step: int, rank: int = RANK) -> torch.Tensor:
    seed = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(5, 8, generator=seed).to(DEVICE)


def train(net: nn.Module, steps: int = STEPS, same: bool = False) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)
    for step in range(steps):
        optimizer.zero_grad()
        net(batch(step, 0 if same else RANK)).pow(2).mean().backward()
        optimizer.step()
    return optimizer


def plain(net: nn.Module) -> Weights:
    return [t.detach().cpu().float() for t in net.state_dict().values()]


# ---- DistributedDataParallel


@way
def ddp() -> Weights:
    train(net := DDP(model()))
    return plain(net)


@way
def ddp_bucket_views_static_graph() -> Weights:
    train(net := DDP(model(), gradient_as_bucket_view=True, static_graph=True, bucket_cap_mb=0.001))
    return plain(net)


@way
def ddp_unused_parameters() -> Weights:
    train(net := DDP(Branches().to(DEVICE), find_unused_parameters=True))
    return plain(net)


@way
def ddp_no_sync() -> Weights:
    net = DDP(model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        with net.no_sync():
            net(batch(2 * step)).pow(2).mean().backward()
        net(batch(2 * step + 1)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return plain(net)


@way
def ddp_join() -> Weights:
    torch.manual_seed(0)
    net = DDP(nn.Linear(8, 4).to(DEVICE))
    with Join([net]):
        train(net, steps=STEPS + RANK)
    return plain(net)


@way
def ddp_allreduce_hook() -> Weights:
    net = DDP(model())
    net.register_comm_hook(None, default_hooks.allreduce_hook)
    train(net)
    return plain(net)


@way
def ddp_power_sgd_hook() -> Weights:
    net = DDP(model())
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=3, min_compression_rate=0.1)
    net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(net)
    return plain(net)


@way
def ddp_sync_without_buffers() -> Weights:
    train(net := DDP(model(), broadcast_buffers=False))
    return [p.detach().cpu() for p in net.parameters()]


# ---- FSDP1


def fsdp1(net: nn.Module | None = None, **options: Any) -> Weights:
    net = FullyShardedDataParallel(net or model(), device_id=DEVICE, **options)
    train(net)
    with FullyShardedDataParallel.summon_full_params(net):
        return plain(net)


PER_LINEAR = functools.partial(
    fsdp.wrap.lambda_auto_wrap_policy, lambda_fn=lambda module: isinstance(module, nn.Linear)
)
BF16 = fsdp.MixedPrecision(torch.bfloat16, torch.float32, torch.float32)


@way
def fsdp1_flat() -> Weights:
    return fsdp1(use_orig_params=False)


@way
def fsdp1_original_parameters() -> Weights:
    return fsdp1(use_orig_params=True, auto_wrap_policy=PER_LINEAR)


@way
def fsdp1_shard_grad_op() -> Weights:
    return fsdp1(sharding_strategy=fsdp.ShardingStrategy.SHARD_GRAD_OP, auto_wrap_policy=PER_LINEAR)


@way
def fsdp1_bf16() -> Weights:
    return fsdp1(Mlp().to(DEVICE), use_orig_params=True, mixed_precision=BF16)


@way
def fsdp1_offload() -> Weights:
    net = FullyShardedDataParallel(
        model(), device_id=DEVICE, cpu_offload=fsdp.CPUOffload(offload_params=True)
    )
    train(net)
    kind = fsdp.StateDictType.FULL_STATE_DICT
    with FullyShardedDataParallel.state_dict_type(net, kind):
        return plain(net)


@way
def fsdp1_hybrid() -> Weights:
    mesh = init_device_mesh(WHERE, (max(1, WORLD // 2), 2), mesh_dim_names=("copies", "shards"))
    return fsdp1(sharding_strategy=fsdp.ShardingStrategy.HYBRID_SHARD, device_mesh=mesh)


@way
def fsdp1_sharded_checkpoint() -> Weights:
    """Train, save sharded, load into a new model, train on: as if it had never stopped."""
    nets = []
    for _ in range(2):
        mesh = init_device_mesh(WHERE, (WORLD,))
        nets.append(FullyShardedDataParallel(model(), device_id=DEVICE, device_mesh=mesh))
    train(nets[0], 5)
    path = FOLDER / f"fsdp1-{WHERE}"
    for net, move in zip(nets, (dcp.save, dcp.load), strict=True):
        with FullyShardedDataParallel.state_dict_type(net, fsdp.StateDictType.SHARDED_STATE_DICT):
            state = {"model": net.state_dict()}
            move(state, checkpoint_id=path)
            net.load_state_dict(state["model"])
    train(nets[1], 5)
    with FullyShardedDataParallel.summon_full_params(nets[1]):
        return plain(nets[1])


# ---- FSDP2


def fsdp2(mesh: Any, **options: Any) -> nn.Module:
    net = model()
    for layer in (net[0], net[1], net[3], net):
        fully_shard(layer, mesh=mesh, **options)
    return net


def whole(net: nn.Module) -> Weights:
    return [p.full_tensor().detach().cpu() for p in net.parameters()]


@way
def fsdp2_plain() -> Weights:
    train(net := fsdp2(init_device_mesh(WHERE, (WORLD,))))
    return whole(net)


@way
def fsdp2_sum() -> Weights:
    """The gradients are summed and divided, as hccl wants it, in place of ReduceOp.AVG."""
    net = fsdp2(init_device_mesh(WHERE, (WORLD,)))
    for part in net.modules():
        if isinstance(part, fsdp.FSDPModule):
            part.set_force_sum_reduction_for_comms(True)
    train(net)
    return whole(net)


@way
def fsdp2_bf16() -> Weights:
    policy = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    net = fully_shard(Mlp().to(DEVICE), mesh=init_device_mesh(WHERE, (WORLD,)), mp_policy=policy)
    train(net)
    return whole(net)


@way
def fsdp2_keep_whole() -> Weights:
    train(net := fsdp2(init_device_mesh(WHERE, (WORLD,)), reshard_after_forward=False))
    return whole(net)


@way
def fsdp2_hybrid() -> Weights:
    mesh = init_device_mesh(WHERE, (max(1, WORLD // 2), 2), mesh_dim_names=("copies", "shards"))
    train(net := fsdp2(mesh))
    return whole(net)


@way
def fsdp2_offload() -> Weights:
    options = {"offload_policy": fsdp.CPUOffloadPolicy(pin_memory=False)}
    net = fsdp2(init_device_mesh(WHERE, (WORLD,)), **(options if WHERE == "hpu" else {}))
    train(net)
    if WHERE == "cpu":
        return whole(net)
    found = get_model_state_dict(
        net, options=dcp.state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    names = [name for name, _ in net.named_parameters()]
    return [found[name] for name in names] if RANK == 0 else []


@way
def fsdp2_checkpoint() -> Weights:
    mesh = init_device_mesh(WHERE, (WORLD,))
    first, second = fsdp2(mesh), fsdp2(mesh)
    train(first, 5)
    path = FOLDER / f"fsdp2-{WHERE}"
    dcp.save({"model": first.state_dict()}, checkpoint_id=path)
    state = {"model": second.state_dict()}
    dcp.load(state, checkpoint_id=path)
    second.load_state_dict(state["model"])
    train(second, 5)
    return whole(second)


# ---- tensor and sequence parallel


@way
def tensor_parallel() -> Weights:
    mesh = init_device_mesh(WHERE, (WORLD,))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    net = parallelize_module(Mlp().to(DEVICE), mesh, plan)
    train(net, same=True)
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().cpu() for p in net.parameters()]  # fmt: skip


@way
def sequence_parallel() -> Weights:
    mesh = init_device_mesh(WHERE, (WORLD,))
    plan = {
        "norm": SequenceParallel(sequence_dim=0),
        "up": PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate()),
        "down": RowwiseParallel(output_layouts=Shard(0)),
    }
    net = parallelize_module(Mlp().to(DEVICE), mesh, plan)
    parallelize_module(net, mesh, {"up": ColwiseParallel()})
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)
    for step in range(STEPS):
        optimizer.zero_grad()
        net(batch(step)[:4]).pow(2).sum().backward()
        optimizer.step()
    return [p.full_tensor().detach().cpu() for p in net.parameters()]


@way
def tensor_parallel_with_fsdp2() -> Weights:
    mesh = init_device_mesh(WHERE, (max(1, WORLD // 2), 2), mesh_dim_names=("data", "tensor"))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    net = parallelize_module(Mlp().to(DEVICE), mesh["tensor"], plan)
    fully_shard(net, mesh=mesh["data"])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)
    for step in range(STEPS):
        optimizer.zero_grad()
        net(batch(step, RANK // 2)).pow(2).mean().backward()
        optimizer.step()
    return [p.full_tensor().detach().cpu() for p in net.parameters()]


def main() -> None:
    found: dict[str, Any] = {}
    for name in sys.argv[4:] or WAYS:
        if name.endswith("hybrid") and WORLD < 4:
            continue
        try:
            weights = WAYS[name]()
        except (NotImplementedError, RuntimeError, ValueError) as error:
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            continue
        found[name] = copy.deepcopy(weights)
        dist.barrier()
    if RANK == 0:
        torch.save(found, TARGET)
    dist.destroy_process_group()


main()
