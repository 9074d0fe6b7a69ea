"""FSDP of both kinds, written for CUDA: trains and saves, or reads and goes on, on any number of processes.

Usage: sharded_checkpoint.py write|read FOLDER. The batch of a step is divided among the ranks, so that losses do not depend on
their number.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

ON_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if ON_CUDA else torch.device("cpu")
ROWS = 8


def sharded(kind: str, seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(DEVICE)  # fmt: skip
    if kind == "fsdp2" or not ON_CUDA:  # FSDP1 takes no model on the CPU; they compute the same
        for layer in (model[0], model[3]):
            fully_shard(layer)
        fully_shard(model)
    else:
        model = FullyShardedDataParallel(model, use_orig_params=True)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def losses(model: nn.Module, optimizer: torch.optim.Optimizer, first: int) -> list[float]:
    """Of two steps' whole batches."""
    found = []
    part = ROWS // dist.get_world_size()
    for number in range(first, first + 2):
        source = torch.Generator().manual_seed(number)
        rows = torch.randn(ROWS, 6, generator=source)
        mine = rows[part * dist.get_rank() :][:part].to(DEVICE)
        loss = model(mine).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        found.append(whole.item() / dist.get_world_size())
    return found


def main(action: str, folder: str) -> None:
    if ON_CUDA:
        torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl" if ON_CUDA else "gloo")
    told = {"rank": dist.get_rank(), "on": DEVICE.type, "world": dist.get_world_size()}
    for kind in ("fsdp1", "fsdp2"):
        model, optimizer = sharded(kind, 0 if action == "write" else 1)
        place = Path(folder) / kind
        if action == "write":
            losses(model, optimizer, 0)
            weights, moments = get_state_dict(model, optimizer)
            dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=place)
        else:
            weights, moments = get_state_dict(model, optimizer)
            state = {"model": weights, "optimizer": moments}
            dcp.load(state, checkpoint_id=place)
            set_state_dict(
                model,
                optimizer,
                model_state_dict=state["model"],
                optim_state_dict=state["optimizer"],
            )
        told[kind] = losses(model, optimizer, 2)
        told["weights"] = sorted({weight.device.type for weight in model.parameters()})
    sys.stdout.write(f"RANK {json.dumps(told)}\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
