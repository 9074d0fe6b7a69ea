"""A Ray job for GPUs that asks by number and by name: a task, a placement group, Tune. ``ray_resources.py WHERE FOLDER``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ray
import torch
from ray import tune
from ray.util.placement_group import placement_group, remove_placement_group

WHERE, FOLDER = sys.argv[1], Path(sys.argv[2])
PLACE = "cpu" if WHERE == "cpu" else "cuda"


@ray.remote(num_gpus=1)
def step():
    x = torch.ones(4, device=PLACE, requires_grad=True)
    (x * 2).sum().backward()
    return [x.grad.sum().item(), x.device.type]


def trial(config):
    x = torch.ones(3, device=PLACE) * config["scale"]
    tune.report({"loss": x.sum().item(), "on": x.device.type})


def main():
    ray.init(num_cpus=4)
    found = {"cards": ray.cluster_resources().get("GPU", 0)}
    found["task"] = ray.get(step.remote(), timeout=200)
    bundles = [{"GPU": 1, "CPU": 1}]
    group = placement_group(bundles)
    ray.get(group.ready(), timeout=200)
    remove_placement_group(group)
    asked = tune.with_resources(trial, {"cpu": 1, "gpu": 1})
    results = tune.Tuner(asked, param_space={"scale": tune.grid_search([1.0, 2.0])}).fit()
    found["trials"] = sorted([one.metrics["loss"], one.metrics["on"]] for one in results)
    (FOLDER / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
