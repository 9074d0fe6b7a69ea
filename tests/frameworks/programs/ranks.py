"""A CUDA job as a cluster starts it: rank and size from Open MPI, Slurm or torchrun. Prints what each rank found."""

from __future__ import annotations

import json
import os

import torch
import torch.distributed as dist


def said(*names: str) -> int:
    """The number that the first of these variables gives, which is set."""
    return next(int(os.environ[name]) for name in names if name in os.environ)


rank = said("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
world = said("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")
local = said("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
torch.cuda.set_device(local)
dist.init_process_group("nccl", rank=rank, world_size=world)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1).cuda(), device_ids=[local])
total = torch.ones(1, device="cuda") * (rank + 1)
dist.all_reduce(total)
model(torch.ones(2, 4, device="cuda")).sum().backward()
weight = next(model.parameters())
told = {"rank": rank, "world": world, "sum": total.item(), "is_cuda": weight.is_cuda}
told["kept"] = bool(torch.isfinite(weight.grad).all())
print("RANK " + json.dumps(told, sort_keys=True), flush=True)
dist.destroy_process_group()
