"""A Ray Train job for GPUs, with two workers; the first word keeps it on the CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ray
import ray.train.torch
import torch
import torch.distributed as dist
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer


def loop(config: dict) -> None:
    """Trains a linear layer, the same on every worker."""
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.randn(8, 4).to(ray.train.torch.get_device())
    for _ in range(3):
        loss = model(rows).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    rank = ray.train.get_context().get_world_rank()
    told = {"rank": rank, "loss": loss.item(), "backend": dist.get_backend(), "wrapped": type(model).__name__}  # fmt: skip
    told["on"] = torch.zeros(1).to(next(model.parameters())).device.type
    Path(config["folder"], f"{rank}.json").write_text(json.dumps(told), encoding="utf-8")
    ray.train.report({"loss": loss.item()})


if __name__ == "__main__":
    where, folder = sys.argv[1:3]
    ray.init(num_cpus=3, include_dashboard=False)
    workers = ScalingConfig(num_workers=2, use_gpu=where != "cpu")
    TorchTrainer(loop, train_loop_config={"folder": folder}, scaling_config=workers).fit()
