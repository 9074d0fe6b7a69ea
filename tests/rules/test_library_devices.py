"""Cards that are asked of a library or a cluster are found in every spelling, and of nothing else."""

from __future__ import annotations

import pytest
from crossed import crossed

from hpushim.engine.base.text import ALONE, Project
from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.matrix import load
from hpushim.model import Target

WORDS = [
    "use_cuda=True",
    "use_gpu=flag",
    "cuda=True",
    "gpu=0",
    "gpu=True",
    "gpus=1",
    "gpus=-1",
    "gpus=torch.cuda.device_count()",
    "n_gpu=2",
    "num_gpus=cards",
    "gpu_id=0",
    "cuda_device=1",
    'device="gpu"',
    'device="auto"',
    'device="0,1"',
    "device=0",
    "device=[0, 1]",
    'accelerator="gpu"',
    'accelerator="cuda"',
    'options={"accelerator": "gpu"}',
]
NONE = [
    "use_cuda=False",
    "gpus=0",
    "gpus=None",
    "gpu_id=-1",
    'gpu="cpu"',
    "device=place",
    'device="cpu"',
    'accelerator="cpu"',
    "threads=4",
]
#: A call of a package's function, of a class in it, of a method of what that has made.
CALLS = [
    "import {0}\n{0}.fit({1})",
    "from {0}.models import Net\nnet = Net({1})",
    "from {0} import Net as N\nnet = N(4)\nnet.train(3, {1})",
    "import {0}.models as m\ndef run(flag, cards, place):\n    return m.Net(2).to_fit({1})",
]


def found(text: str, project: Project = ALONE) -> list[str]:
    """The codes of what a rule on asked cards finds."""
    context = Context(Target(), load(), project)
    codes = (finding.code for finding in examine(text, "python", "train.py", context))
    return [code for code in codes if code in ("HPU716", "HPU726")]


@pytest.mark.parametrize(("call", "words"), crossed(CALLS, WORDS, rounds=3))
def test_a_library_is_asked(words: str, call: str) -> None:
    assert found("import torch\n" + call.format("elsewhere", words) + "\n") == ["HPU726"]


@pytest.mark.parametrize("words", NONE)
def test_nothing_is_asked(words: str) -> None:
    for call in CALLS:
        assert found("import torch\n" + call.format("elsewhere", words) + "\n") == []


@pytest.mark.parametrize("package", ["argparse", "wandb", "xgboost", "models"])
def test_not_a_library_that_trains_with_torch(package: str) -> None:
    project = Project(modules=frozenset({"models"}))
    for words in WORDS:
        assert found("import torch\n" + CALLS[0].format(package, words) + "\n", project) == []


@pytest.mark.parametrize(
    ("calls", "severity"),
    [
        ('PPO("P", "E", device=place)', "note"),
        ('PPO("P", "E", device=place)\nmake_env("E")', "note"),
        ('PPO("P", "E", device=place)\nPPO("P", "E")', "warning"),
        ('PPO("P", "E", device=place)\nDQN("P", "E")', "warning"),
        ('PPO("P", "E")', "warning"),
    ],
)
def test_a_device_that_is_given_everywhere(calls: str, severity: str) -> None:
    text = "from stable_baselines3 import DQN, PPO\nfrom stable_baselines3.common import make_env\n"
    context = Context(Target(), load(), ALONE)
    told = {one.severity for one in examine(text + calls + "\n", "python", "train.py", context) if one.code == "HPU714"}  # fmt: skip
    assert told == {severity}


TABLES = [
    'tune.with_resources(f, {"GPU": 1})',
    'tune.with_resources(f, resources={"cpu": 1, "gpu": 2})',
    'tune.run(f, resources_per_trial={"gpu": cards})',
    "f.options(num_gpus=1).remote()",
    'f.options(**{"num_gpus": 1}).remote()',
    'placement_group([{"CPU": 1}] + [{"GPU": 1}] * 4)',
    'tune.with_resources(f, lambda config: {"gpu": 1})',
    'bundles = [{"GPU": 1}]\nplacement_group(bundles)',
    'placement_group([{"GPU": 1} for _ in range(4)])',
    'TorchTrainer(f, scaling_config=ScalingConfig(resources_per_worker={"GPU": 1}))',
    "ScalingConfig(use_gpu=True)",
    'ray.cluster_resources()["GPU"]',
    'have = ray.available_resources()\nprint(have.get("GPU", 0))',
    "data.map_batches(F, num_gpus=1)",
    "PPOConfig().learners(num_gpus_per_learner=1)",
    "ray.get_gpu_ids()",
]
_RAY = """import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
from ray.util.placement_group import placement_group

"""


@pytest.mark.parametrize("asked", TABLES)
def test_ray_is_asked(asked: str) -> None:
    assert found(_RAY + asked + "\n") == ["HPU716"]


@pytest.mark.parametrize("asked", TABLES[:-3])
def test_none_of_it_is_ray(asked: str) -> None:
    assert "HPU716" not in found(asked + "\n")


@pytest.mark.parametrize(
    "other", ['prices = {"GPU": 1}', 'tune.run(f, config={"gpu_name": 1})', "f.options(num_gpus=0)"]
)
def test_ray_is_not_asked(other: str) -> None:
    assert found(_RAY + other + "\n") == []
