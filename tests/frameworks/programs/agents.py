"""A CUDA job of two hosts, unedited: trains, and with `kill` is killed once on one rank; goes on from its checkpoint.

Usage: agents.py FOLDER [kill]
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1).cuda(), device_ids=[local])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
saved = Path(sys.argv[1], "state.pt")
first = 0
if saved.exists():
    state = torch.load(saved, map_location=f"cuda:{local}")
    model.load_state_dict(state["model"])
    first = state["step"]
losses = []
for step in range(first, 6):
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * step + rank)).cuda()
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
    losses.append(loss.item())
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": step + 1}, saved)
    dist.barrier()
    if (
        "kill" in sys.argv
        and step == 2
        and rank == 1
        and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    ):
        os.kill(os.getpid(), signal.SIGKILL)
if rank == 0:
    found = {
        "first": first,
        "last": losses[-1],
        "device": next(model.parameters()).device.type == "cuda",
        "hosts": os.environ["GROUP_WORLD_SIZE"],
    }
    sys.stdout.write(f"RESULT {json.dumps(found)}\n")
dist.barrier()
dist.destroy_process_group()
