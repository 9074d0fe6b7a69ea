"""What stops a training step, also in a function of another file that it runs; and what the code may do without."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed

from hpushim.codemods.analysis.training_facts import STEP_CALLS
from hpushim.dependencies import Places
from hpushim.dependencies.project import of_project
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Report, Target
from hpushim.report.assessment import summarise


def reported(root: Path, files: dict[str, str]) -> Report:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return analyse([root], Target(), jobs=1)


#: What raises an error of tensors on the device.
STOPS = [
    "torch.stft(x, 8, return_complex=True).abs()",
    "torch.fft.rfft(x).abs()",
    "torch.view_as_complex(x).real",
    "torch.view_as_real(torch.complex(x, x))",
    "x.stft(8, return_complex=True).abs()",
]
HELPERS = {
    "def spectrum(x):\n    return {0}\n": "spectrum",
    "def _turn(x):\n    return {0}\n\n\ndef spectrum(x):\n    return _turn(x) * 2\n": "spectrum",
}
#: What uses such a function of a file ``ours/audio.py``, and whether a training step runs it.
USERS = {
    "class Net(nn.Module):\n    def forward(self, x):\n        return {0}(x)\n": True,
    "class Base(nn.Module):\n    pass\n\n\nclass Net(Base):\n    def loss(self, x, y):\n        return {0}(x) - y\n": True,
    "def step(net, x):\n    loss = {0}(net(x)).mean()\n    loss.backward()\n": True,
    "class Runner:\n    def loss(self, x):\n        return {0}(x).mean()\n\n    def run(self, x):\n        self.loss(x).backward()\n": True,
    "for x in data:\n    net({0}(x.cuda())).sum().backward()\n": True,
    "class Net(nn.Module):\n    def __init__(self, x):\n        super().__init__()\n        self.table = {0}(x)\n": False,
    "class Data:\n    def __getitem__(self, n):\n        return {0}(self.x[n])\n": False,
    "def show(x):\n    print({0}(x))\n": False,
    "def test_it(x):\n    {0}(x).backward()\n": False,
}
IMPORTS = {
    "from ours.audio import {0}": "{0}",
    "from ours.audio import {0} as turned": "turned",
    "from ours import audio": "audio.{0}",
    "import ours.audio as a": "a.{0}",
}


@pytest.mark.parametrize(("stop", "helper", "imported", "user"), crossed(STOPS, list(HELPERS), list(IMPORTS), list(USERS), rounds=4))  # fmt: skip
def test_a_function_stops_where_a_step_runs_it(tmp_path: Path, stop: str, helper: str, imported: str, user: str) -> None:  # fmt: skip
    name = HELPERS[helper]
    called = IMPORTS[imported].format(name)
    report = reported(tmp_path, {
        "ours/__init__.py": "",
        "ours/audio.py": f"import torch\n\ndevice = 'cuda'\n\n\n{helper.format(stop)}",
        "main.py": f"import torch\nfrom torch import nn\n{imported.format(name)}\n\n\n{user.format(called)}",
    })  # fmt: skip
    found = {f.severity for file in report.files if file.path == "ours/audio.py" for f in file.findings if f.code == "HPU118"}  # fmt: skip
    assert found == ({"error"} if USERS[user] else {"warning"})


#: Tensors in a loop that trains, and whether the program shows them on the CPU.
TENSORS = {
    "x = torch.randn(4, 9, device='cuda')\n    y = {0}": True,
    "x = x.cuda()\n    y = {0}": True,
    "y = {0}": False,
    "z = torch.randn(4, 9)\n    y = {1}": False,
}


@pytest.mark.parametrize(("stop", "tensor"), crossed(STOPS[:3], list(TENSORS), rounds=3))
def test_in_a_loop_it_stops_unless_it_is_done_on_the_cpu(tmp_path: Path, stop: str, tensor: str) -> None:  # fmt: skip
    text = f"import torch\n\nfor x in data:\n    {tensor.format(stop, stop.replace('x)', 'z)').replace('x,', 'z,'))}\n    net(y.cuda()).sum().backward()\n"
    report = reported(tmp_path, {"train.py": text})
    (found,) = [f for file in report.files for f in file.findings if f.code == "HPU118"]
    assert (found.severity == "error") is TENSORS[tensor]
    assert summarise(report).verdict == ("needs work" if TENSORS[tensor] else "ready")


def test_files_without_torch_say_nothing_of_steps() -> None:
    assert not set(STEP_CALLS.find(b"\ndef f(x):\n    g(x).backward()\ndef g(x):\n    return x\n"))


# -- extensions that another folder builds, taken or not ------------------------------------------

BUILDS = 'from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n\nsetup(ext_modules=[CUDAExtension("fused_cuda", ["k.cu"])])\n'
TAKES = [
    "fused = importlib.import_module('fused_cuda')",
    "from importlib import import_module\n    fused = import_module('fused_cuda')",
    "import fused_cuda as fused",
    "import fused_cuda\n    fused = fused_cuda",
]
HANDLED = {
    "except ModuleNotFoundError:\n    step = plain": ("note", "ready"),
    "except (ImportError, OSError):\n    fused = None": ("note", "ready"),
    "except ImportError:\n    pass": ("note", "ready"),
    "except ImportError:\n    raise": ("error", "blocked"),
}


@pytest.mark.parametrize(("taken", "handler"), crossed(TAKES, list(HANDLED), rounds=4))
def test_a_bundled_package_builds_what_the_code_may_do_without(tmp_path: Path, taken: str, handler: str) -> None:  # fmt: skip
    text = f"import importlib, torch\n\n\ndef plain(p):\n    pass\n\n\ntry:\n    {taken}\n    step = fused.adam\n{handler}\nnet = torch.nn.Linear(4, 4).cuda()\nfor x in data:\n    net(x.cuda()).sum().backward()\n"
    report = reported(tmp_path, {"train.py": text, "apex/setup.py": BUILDS, "apex/k.cu": ""})
    told = [f.severity for file in report.files if file.path == "train.py" for f in file.findings if f.code == "HPU723"]  # fmt: skip
    assert (told, summarise(report).verdict) == ([HANDLED[handler][0]], HANDLED[handler][1])


# -- packages that have the name of a module of the project -----------------------------------------

#: The files of a project, and whether the import in one of them is of a package of others.
NAMED = {
    "a wrapper of it": ({"net/__init__.py": "", "net/nn/__init__.py": "", "net/nn/sparsely.py": "{0}", "net/use.py": "{0}"}, True),
    "in another package": ({"net/__init__.py": "", "net/nn/__init__.py": "", "net/nn/sparsely.py": "", "net/use.py": "{0}"}, True),
    "a folder elsewhere": ({"net/__init__.py": "", "net/nn/__init__.py": "", "net/nn/sparsely/__init__.py": "", "net/use.py": "{0}"}, True),
    "beside a script": ({"net/__init__.py": "", "net/sparsely.py": "", "net/use.py": "{0}"}, False),
    "above a script": ({"net/__init__.py": "", "net/sparsely/__init__.py": "", "net/tools/use.py": "{0}"}, False),
    "where a script looks": ({"net/__init__.py": "", "net/nn/__init__.py": "", "net/nn/sparsely.py": "", "use.py": "import sys\nsys.path.append('net/nn')\n{0}"}, False),
    "at the top": ({"sparsely.py": "", "use.py": "{0}"}, False),
}  # fmt: skip


@pytest.mark.parametrize("line", ["import sparsely\n", "import sparsely.nn as snn\n", "from sparsely.nn import Conv3d\n"])  # fmt: skip
@pytest.mark.parametrize("case", list(NAMED))
def test_a_module_hides_a_package_where_python_finds_it(tmp_path: Path, case: str, line: str) -> None:  # fmt: skip
    files, told = NAMED[case]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.format(line))
    found = of_project([tmp_path], (), Places(tmp_path, None, None), load(), Target())
    assert ("sparsely" in {each.name for each in found}) is told
