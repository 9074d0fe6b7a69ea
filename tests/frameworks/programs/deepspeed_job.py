"""A job for the ``deepspeed`` command, written for CUDA as people write it: every rank prints what it trained.

It computes what ``deepspeed_zero.py`` computes on the CPU.
"""

from __future__ import annotations

import argparse
import json
import sys

import deepspeed
import torch

SETTINGS = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_clipping": 0.0,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True, "weight_decay": 0.0}},
    "zero_optimization": {"stage": 2},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)
    deepspeed.init_distributed(dist_backend="nccl")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    engine, _, _, _ = deepspeed.initialize(
        model=model.cuda(), model_parameters=model.parameters(), config=SETTINGS
    )
    losses = []
    for number in range(4):
        source = torch.Generator().manual_seed(10 * number + torch.distributed.get_rank())
        batch = torch.randn(4, 8, generator=source).to(f"cuda:{args.local_rank}")
        loss = engine(batch).pow(2).mean()
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    told = {
        "rank": torch.distributed.get_rank(),
        "on_card": bool(loss.is_cuda),
        "backend": torch.distributed.get_backend(),
        "losses": losses,
    }
    sys.stdout.write(f"RANK {json.dumps(told)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
