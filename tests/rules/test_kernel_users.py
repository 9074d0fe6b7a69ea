"""A check that leads, through another file of the project, to kernels for NVIDIA GPUs stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Target

KERNELS = {
    "numba": "from numba import cuda\n@cuda.jit\ndef kernel(x):\n    pass\n",
    "triton": "import triton\n@triton.jit\ndef kernel(x):\n    pass\n",
    "extension": "import torch\ndef kernel(x):\n    return torch.ops.ours.scale(x)\n",
}
USERS = "def loss(x):\n    return kernel(x)\nclass Loss:\n    def forward(self, x):\n        return loss(x)\ndef plain(x):\n    return x + 1\n"
CHECKS = [
    "if torch.cuda.is_available():\n    print({0}(x))\n",
    "@pytest.mark.skipif(torch.cuda.device_count() == 0, reason='no device')\ndef test_it():\n    assert {0}(1)\n",
    "if x.is_cuda:\n    y = {0}(x)\nelse:\n    y = x\n",
]


def is_kept(tmp_path: Path, kernels: str, check: str, name: str) -> bool:
    """Does the check in a file beside stay?"""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/__init__.py").touch()
    (tmp_path / "ours/losses.py").write_text(kernels + USERS)
    text = f"import pytest\nimport torch\nfrom ours.losses import {name}\nx = torch.zeros(2)\n"
    (tmp_path / "main.py").write_text(text + check.format(name))
    (found,) = [f for f in analyse([tmp_path], Target(), jobs=1).files if f.path == "main.py"]
    codes = {f.code for f in found.findings}
    assert codes, "the check is reported in any case"
    return "HPU028" in codes


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ["kernel", "loss", "Loss"])
@pytest.mark.parametrize("kind", KERNELS)
def test_it_stays_before_what_runs_kernels(
    tmp_path: Path, kind: str, name: str, check: str
) -> None:
    assert is_kept(tmp_path, KERNELS[kind], check, name)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", KERNELS)
def test_it_turns_before_what_runs_none(tmp_path: Path, kind: str, check: str) -> None:
    assert not is_kept(tmp_path, KERNELS[kind], check, "plain")


@pytest.mark.parametrize("kind", ["numba", "extension"])
def test_it_stays_before_a_kernel_of_its_own_file(kind: str) -> None:
    text = f"import torch\n{KERNELS[kind]}{USERS}def run(x):\n    if x.is_cuda:\n        return Loss()(x)\n    return x\n"
    found = examine(text, "python", "train.py", Context(Target(), load()))
    assert "HPU028" in {f.code for f in found}


def test_it_stays_beside_a_question_for_gpus_of_amd() -> None:
    text = "import torch\nif torch.cuda.is_available() and torch.version.hip:\n    tune()\n"
    (found,) = [
        f for f in examine(text, "python", "train.py", Context(Target(), load())) if f.line == 2
    ]
    assert (found.code, found.severity) == ("HPU028", "note")


def test_operators_of_torch_are_no_kernels_of_the_project(tmp_path: Path) -> None:
    text = "import torch\ndef kernel(x):\n    return torch.ops.aten.relu(x)\n"
    assert not is_kept(tmp_path, text, CHECKS[0], "loss")
