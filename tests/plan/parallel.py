"""Trains small models in several ways: ``parallel.py HOWS WORLD BACKEND DEVICE`` forks the ranks; a rank that was started as one trains as that."""

from __future__ import annotations

import json
import os
import socket
import sys
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

warnings.simplefilter("ignore")


def train(how: str, device: str) -> None:
    world = dist.get_world_size()
    torch.manual_seed(0)
    layers = nn.Linear(64, 96, bias=False), nn.ReLU(), nn.Linear(96, 64, bias=False)
    model: nn.Module = nn.Sequential(*layers).to(device)
    if how == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    if how == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for part in (*layers[::2], model):
            fully_shard(part)
    if how == "tensor":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import parallel

        mesh = init_device_mesh(device, (world // 2, 2), mesh_dim_names=("data", "tensor"))
        plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
        model = parallel.parallelize_module(model, mesh["tensor"], plan)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        loss = model(torch.randn(8, 64, device=device)).pow(2).mean()
        loss.backward()
        if how == "calls":
            whole = torch.zeros(world * 10, device=device)
            dist.all_gather_into_tensor(whole, torch.ones(10, device=device))
            dist.all_reduce(loss.detach())
            dist.broadcast(whole, 0)
            dist.all_to_all_single(torch.empty_like(whole), whole)
            parts = [torch.empty(5, device=device) for _ in range(world)]
            dist.all_gather(parts, torch.ones(5, device=device))
        optimizer.step()
        optimizer.zero_grad()


class Sent(TorchDispatchMode):
    """The bytes that this rank hands over in each collective, and the ranks of the group."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in ("c10d", "_c10d_functional"):
            self._note(func._schema.name.partition("::")[2], args)
        return func(*args, **(kwargs or {}))

    def _note(self, name: str, args: tuple[Any, ...]) -> None:
        group = next((dist.ProcessGroup.unbox(a) for a in args if isinstance(a, torch.ScriptObject) and "ProcessGroup" in str(a._type())), None)  # fmt: skip
        if group is None and isinstance(args[-1], str):
            group = dist.distributed_c10d._resolve_process_group(args[-1])
        if group is not None:
            # What is filled comes first, where both are given.
            given = args[name in ("allgather_", "_allgather_base_", "_reduce_scatter_base_", "alltoall_base_", "scatter_")]  # fmt: skip
            self.seen.append((name, _bytes(given), group.size()))


def _bytes(given: Any) -> int:
    return given.nbytes if isinstance(given, torch.Tensor) else sum(map(_bytes, given))


def rank(hows: str, backend: str, device: str) -> None:
    dist.init_process_group(backend)
    for how in hows.split(","):
        train(how, device)


def main() -> None:
    hows, world, backend, device = sys.argv[1:]
    if "RANK" in os.environ:
        return rank(hows, backend, device)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    torch.set_num_threads(1)
    number = next((one for one in range(1, int(world)) if not os.fork()), 0)
    here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": world}
    os.environ.update(here, RANK=str(number), LOCAL_RANK=str(number), LOCAL_WORLD_SIZE=world)
    if device == "cpu" and number == 0:
        with Sent() as sent:
            rank(hows, backend, device)
        print(json.dumps(sent.seen))
    else:
        rank(hows, backend, device)
    dist.destroy_process_group()
    if number == 0:
        ended = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(int(world) - 1)]
        sys.exit(max(map(abs, ended)))


if __name__ == "__main__":
    main()
