"""Trains the demo project and keeps every rank's weights; copied beside its train.py by the two-process test.

torchrun … ranks.py OUT [options of train.py]    # writes OUT.rank0.pt, OUT.rank1.pt …
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import train

seen = []
begin = dist.init_process_group


def remember(*args, **kwargs):
    begin(*args, **kwargs)
    group = dist.distributed_c10d._get_default_group()
    seen.append(dist.distributed_c10d._world.pg_map[group][0])


dist.init_process_group = remember
model = train.main(sys.argv[2:])
state = {
    "device": str(next(model.parameters()).device),
    "backend": seen[0],
    "weights": {name: value.detach().cpu() for name, value in model.state_dict().items()},
}
torch.save(state, f"{sys.argv[1]}.rank{os.environ['RANK']}.pt")
