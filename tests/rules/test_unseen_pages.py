"""What made first pages mislead: options that are off, parts of packages, settings of Lightning and Accelerate, and requirements by another name."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from one_text import settled, severities

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Finding, Target


def found(root: Path, files: dict[str, str]) -> dict[str, list[Finding]]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return {file.path: file.findings for file in analyse([root], target=Target()).files}


# -- options that are off -----------------------------------------------------------------------

DECLARED = {
    "hparams = HParams(epochs=3, layers=['a(1)'], half={0})": "self.hparams.half",
    "hp = tf.contrib.training.HParams(\n    epochs=3,\n    half={0},\n    names=dict(a=1),\n)": "hparams.half",
    "parser.add_argument('--half', action='store_{0}')": "config['half']",
    "parser.add_argument('--half', action='store_{0}', help='x')": "self.opts['half']",
}
WORK = "torch.jit.script(net)"
BRANCHES = {
    "if {0}:\n        net = {1}": True,
    "if not {0}:\n        net = {1}": False,
    "if not {0}:\n        return net\n    net = {1}": True,
    "if {0}:\n        return net\n    net = {1}": False,
}


@pytest.mark.parametrize(("declared", "off", "branch"), crossed(list(DECLARED), [True, False], list(BRANCHES), rounds=3))  # fmt: skip
def test_what_an_option_that_is_off_reaches(tmp_path: Path, declared: str, off: bool, branch: str) -> None:  # fmt: skip
    value = ("true" if off else "false") if "store_" in declared else str(not off)
    files = {
        "settings.py": f"from argparse import ArgumentParser\n\nparser = ArgumentParser()\n{declared.format(value)}\n",
        "train.py": f"import torch\n\n\ndef f(self, hparams, config, net):\n    net.cuda()\n    {branch.format(DECLARED[declared], WORK)}\n    return net\n",
    }
    (told,) = [each for each in found(tmp_path, files)["train.py"] if each.code == "HPU512"]
    if off:
        assert told.unchosen == BRANCHES[branch]
    elif BRANCHES[branch]:
        assert not told.unchosen


GIVEN = {
    "f(net, half=args.half)": True,
    "f(net, half=config['half'])": True,
    "f(net, half=self.opt['half'], other=3)": True,
    "f(net, half=args.half)\n    f(net, half=True)": False,
    "f(net, half=config['other'])": False,
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("parameter", ["half", "half=False", "*, half", "half=True"])
def test_an_option_that_is_handed_on(tmp_path: Path, given: str, parameter: str) -> None:
    files = {
        "work.py": f"import torch\n\n\ndef f(net, {parameter}):\n    net.cuda()\n    if half:\n        net = {WORK}\n    return net\n",
        "main.py": f"import argparse\n\nfrom work import f\n\n\ndef main(self, net):\n    parser = argparse.ArgumentParser()\n    parser.add_argument('--half', action='store_true')\n    args = parser.parse_args()\n    config = vars(args)\n    {given}\n",
    }
    (told,) = [each for each in found(tmp_path, files)["work.py"] if each.code == "HPU512"]
    assert told.unchosen == (GIVEN[given] and parameter != "half=True")


ASKED = ["torch.jit.is_tracing()", "torch.jit.is_scripting()", "torch.onnx.is_in_onnx_export()", "torch._C._get_tracing_state()", "traced()"]  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("branch", BRANCHES)
def test_what_only_an_export_reaches(tmp_path: Path, asked: str, branch: str) -> None:
    text = f"import torch\n\n\ndef traced():\n    return torch._C._is_tracing()\n\n\ndef f(net):\n    net.cuda()\n    {branch.format(asked, WORK)}\n    return net\n"
    (told,) = [each for each in found(tmp_path, {"a.py": text})["a.py"] if each.code == "HPU512"]
    assert told.unchosen == BRANCHES[branch]


# -- parts of packages --------------------------------------------------------------------------

PARTS = {
    "from torch_scatter import scatter\n": ("scatter(x, i, reduce={0})", {"'min'": True, '"max"': True, "'sum'": None, "kind": False}),
    "import torch_scatter\n": ("torch_scatter.scatter(x, i, 0, reduce={0})", {"'mul'": True, "'mean'": None}),
    "import torch_scatter as ts\n": ("ts.scatter_{0}(x, i)", {"min": True, "add": None, "softmax": True}),
    "from torch_scatter import scatter as sc\n": ("sc(x, i, dim=0, reduce={0})", {"'min'": True, "'add'": None}),
    "import torch_scatter as t\n": ("t.scatter(t.scatter_{0}(x, i), i, reduce='sum')", {"add": None, "max": True}),
}  # fmt: skip
USES = [(head, use.format(value), told) for head, (use, values) in PARTS.items() for value, told in values.items()]  # fmt: skip


@pytest.mark.parametrize(("head", "use", "compiled"), USES)
def test_the_part_of_a_package_that_is_used_decides(head: str, use: str, compiled: bool | None) -> None:  # fmt: skip
    text = f"import torch\nfrom torch import nn\n{head}\n\nclass Norm(nn.Module):\n    def forward(self, x, i, kind):\n        return {use}\n\n\nNorm().cuda()\n"
    assert severities(text, "HPU715") == [["warning", "error"][bool(compiled)]] * (
        compiled is not None
    )


IDLE = {
    "from numba import cuda\n": "cuda.jit",
    "import numba.cuda\n": "numba.cuda.jit",
    "from numba import cuda as nc\n": "nc.to_device",
    "import numba\nfrom numba import cuda\n": "cuda.device_array",
}


@pytest.mark.parametrize("head", IDLE)
@pytest.mark.parametrize("used", [True, False])
def test_a_part_that_is_imported_and_not_used(head: str, used: bool) -> None:
    use = f"@{IDLE[head]}\ndef kernel(x):\n    pass\n" if used else "import numpy\n"
    _, codes = settled(f"import torch\n{head}\n{use}\nx = torch.ones(2).cuda()\n")
    assert ("HPU712" in codes) == used


# -- settings -----------------------------------------------------------------------------------

LIGHTNING = {
    "{0}['accelerator'] = 'ddp'": True,
    "{0}['accelerator'] = 'gpu'": True,
    "{0}['accelerator'] = 'cpu'": False,
    "if 'gpus' not in {0}:\n    cpu = True": True,
    "n = {0}['gpus']": True,
    "{0}['max_epochs'] = 3": False,
}


@pytest.mark.parametrize("setting", LIGHTNING)
@pytest.mark.parametrize(("table", "known"), [("trainer_config", True), ("cfg.trainer", True), ("trainer_kwargs", True), ("model_config", False)])  # fmt: skip
def test_settings_of_lightnings_trainer(setting: str, table: str, known: bool) -> None:
    text = f"import pytorch_lightning as pl\n\n{setting.format(table)}\ntrainer = pl.Trainer(**trainer_config)\n"
    lines = {line for line in told_lines(text, "HPU705") if line > 1}
    assert bool(lines - {text.count("\n")}) == (known and LIGHTNING[setting])


def told_lines(text: str, code: str) -> list[int]:
    findings = settle(text, "python", "ops.py", Context(Target(), load())).findings
    return [each.line for each in findings if each.code == code]


COMPILERS = {
    ("yaml", "a.yaml"): ("dynamo_backend: {0}\n", "HPU_BACKEND", ["INDUCTOR", "inductor"]),
    ("shell", "a.sh"): ("accelerate launch --dynamo_backend {0} train.py\n", "hpu_backend", ["inductor", "INDUCTOR"]),
    ("python", "a.py"): ('from accelerate import Accelerator\n\na = Accelerator(dynamo_backend="{0}")\n', "", ["inductor"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", COMPILERS)
def test_the_compiler_of_accelerate(kind: tuple[str, str]) -> None:
    text, new, values = COMPILERS[kind]
    for value in values:
        after, codes = settled(text.format(value), *kind)
        assert {"HPU801", "HPU806", "HPU704"}.intersection(codes)
        assert not new or text.format(new).strip() in after
    after, codes = settled(text.format("eager"), *kind)
    assert not {"HPU801", "HPU806", "HPU704"}.intersection(codes)


RAYS = {
    "TorchConfig()": True,
    "TorchConfig(timeout_s=3)": True,
    "TorchConfig(backend=None)": True,
    "Own(backend='ccl' if cpu else None)": True,
    "TorchConfig(backend='gloo')": False,
    "Own(backend='hccl')": False,
    "TorchConfig(**given)": False,
}


@pytest.mark.parametrize("config", RAYS)
@pytest.mark.parametrize("gpu", [True, False])
def test_a_backend_that_ray_chooses(config: str, gpu: bool) -> None:
    use = ", use_gpu=True" if gpu else ""
    text = f"from ray.train import ScalingConfig\nfrom ray.train.torch import TorchConfig, TorchTrainer\n\n\nclass Own(TorchConfig):\n    pass\n\n\ndef main(cpu, given):\n    config = {config}\n    TorchTrainer(main, torch_config=config, scaling_config=ScalingConfig(num_workers=2{use}))\n"
    assert (10 in told_lines(text, "HPU716")) == (RAYS[config] and gpu)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock", "requirements.txt"])
def test_requirements_by_another_name(tmp_path: Path, name: str) -> None:
    files = {name: "numpy==1.21.0\ntorch==1.10.0\n", "a.py": "import torch\n"}
    assert "HPU817" in {each.code for each in found(tmp_path, files).get(name, ())}


SPREAD = ["StudentT", "Gamma", "Beta", "Dirichlet", "NegativeBinomial"]


@pytest.mark.parametrize("name", [*SPREAD, "Normal", "Poisson", "Categorical"])
@pytest.mark.parametrize("head", ["from torch.distributions import {0} as D", "import torch.distributions as td\n\nD = td.{0}"])  # fmt: skip
def test_distributions_whose_gradient_is_computed_on_the_cpu(name: str, head: str) -> None:
    text = f"import torch\n{head.format(name)}\n\n\ndef loss(net, x):\n    return -D(*net.cuda()(x)).log_prob(x).mean()\n"
    assert ("HPU118" in settled(text)[1]) == (name in SPREAD)


MASKS = {"(x < 1) * (x > 0)": True, "(x < 1) * ~(x > 0)": True, "(x < 1) * x": False, "(x < 1) * 2": False}  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("use", ["x[m] = 0", "y = x[m]"])
def test_a_product_of_masks_is_one(mask: str, use: str) -> None:
    text = f"import torch\n\n\ndef f(y):\n    x = torch.rand(4).cuda()\n    m = {mask}\n    {use}\n    return y\n"
    assert ("HPU515" in settled(text)[1]) == MASKS[mask]


IMAGES = {"nvcr.io/nvidia/pytorch:24.01-py3": True, "nvidia/cuda:12.1.1-base-ubuntu22.04": True, "pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel": True, "ubuntu:22.04": False, "pytorch/pytorch:latest": False}  # fmt: skip
STARTS = ["docker run --rm {0} python train.py", "srun --container-image={0} python train.py", 'srun --container-image "{0}" sh -c "python train.py"', "singularity exec docker://{0} python train.py"]  # fmt: skip


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("start", STARTS)
def test_images_that_commands_start(start: str, image: str) -> None:
    _, codes = settled(start.format(image) + "\n", "shell", "run.sh")
    assert ("HPU810" in codes) == IMAGES[image]


# -- Lightning, and what is built under a name that is put together ------------------------------

VALUES = ["trainer:\n  gpus: 1\n", "model:\n  trainer_params:\n    gpus: [0, 1]\n", "accelerator: gpu\n", "trainer:\n  accelerator: auto\n"]  # fmt: skip
CODE = {
    "import torch\n\nnet = torch.nn.Linear(2, 2).cuda()\n": False,
    "import pytorch_lightning as pl\n\ntrainer = pl.Trainer(**config)\n": True,
    "from lightning.pytorch.cli import LightningCLI\n\nLightningCLI()\n": True,
    "import lightning_fabric\n": True,
}


@pytest.mark.parametrize(("value", "code"), crossed(VALUES, list(CODE), rounds=4))
@pytest.mark.parametrize("target", ["", "_target_: pytorch_lightning.Trainer\n"])
def test_without_lightning_no_setting_is_its_own(tmp_path: Path, value: str, code: str, target: str) -> None:  # fmt: skip
    told = found(tmp_path, {"train.py": code, "conf/a.yaml": target + value}).get("conf/a.yaml", [])
    assert ("HPU803" in [each.code for each in told]) == (CODE[code] or bool(target))


def test_settings_alone_may_be_lightnings(tmp_path: Path) -> None:
    told = found(tmp_path, {"a.yaml": VALUES[0]})["a.yaml"]
    assert [each.code for each in told] == ["HPU803"]


BUILT = ["'{}.{}._kernels'.format(package, name)", "f'{package}.{name}._kernels'", "'%s.%s._kernels' % (package, name)", "package + '.' + name + '._kernels'", "'.'.join([package, name, '_kernels'])"]  # fmt: skip
HELPERS = {
    "def make(name, package='ours.ops'):\n    return {0}\n\n\nsetup(ext_modules=[make('nms'), make('roi')])\n": True,
    "def make(name, package):\n    return {0}\n\n\nsetup(ext_modules=[make('nms', 'ours.ops'), make(name='roi', package='ours.ops')])\n": True,
    "package = 'ours.ops'\nsetup(ext_modules=[{0} for name in ['nms', 'roi']])\n": True,
    "package = 'ours.ops'\nall = []\nfor name in ('nms', 'roi'):\n    all.append({0})\nsetup(ext_modules=all)\n": True,
    "def make(name, package):\n    return {0}\n\n\nsetup(ext_modules=[make(n, 'ours.ops') for n in find()])\n": False,
}


@pytest.mark.parametrize(("built", "helper"), crossed(BUILT, list(HELPERS), rounds=3))
@pytest.mark.parametrize("named", ["name={0}, sources=[]", "{0}, []"])
def test_kernels_under_names_that_are_put_together(tmp_path: Path, built: str, helper: str, named: str) -> None:  # fmt: skip
    setup = (
        "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n\n\n"
    )
    use = "import torch\nfrom {0} import _kernels\n\n\ndef run(x: torch.Tensor) -> torch.Tensor:\n    return _kernels.run(x, _C)\n"
    files = {
        "setup.py": setup + helper.format(f"CUDAExtension({named.format(built)})"),
        "ours/ops/nms/nms.py": use.format("."),
        "ours/ops/roi/roi.py": use.format("ours.ops.roi"),
        "ours/ops/other.py": "import torch\nfrom .nms import nms\n\n_C = torch.ones(2)\n",
    }
    told = {path: [each.message for each in all if each.code == "HPU723"] for path, all in found(tmp_path, files).items()}  # fmt: skip
    assert not told.get("ours/ops/other.py")
    for name in ("nms", "roi"):
        messages = told.get(f"ours/ops/{name}/{name}.py", [])
        assert [message.split("`")[1] for message in messages] == [f"ours.ops.{name}._kernels"] * HELPERS[helper]  # fmt: skip
