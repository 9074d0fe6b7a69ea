"""What a step reads in functions that it calls, and what workers that read samples do on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed

from hpushim.engine.project import analyse
from hpushim.model import Report, Target


def reported(root: Path, files: dict[str, str]) -> Report:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return analyse([root], Target(), jobs=1)


def codes(report: Report, path: str) -> set[str]:
    return {each.code for file in report.files for each in file.findings if file.path == path}


HEAD = (
    "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\ndevice = 'cuda'\n\n\n"
)
READS = ["F.mse_loss(x, y).item()", "float(F.mse_loss(x, y))", "F.mse_loss(x, y).detach().cpu().numpy()", "int(torch.sum(x))"]  # fmt: skip
#: Who calls ``show`` of another file, and whether that is in each step.
CALLERS = {
    "for x, y in data:\n    show(x, y)\n    net(x.to(device)).sum().backward()\n": True,
    "def step(x, y):\n    net(x.to(device)).sum().backward()\n    show(x, y)\n": True,
    "class Runner:\n    def run(self, x, y):\n        net(x.to(device)).sum().backward()\n        self.log(x, y)\n\n    def log(self, x, y):\n        show(x, y)\n": True,
    "for n, (x, y) in enumerate(data):\n    net(x.to(device)).sum().backward()\n    if n % 50 == 0:\n        show(x, y)\n": False,
    "def look(x, y):\n    show(x, y)\n": False,
    "for x, y in data:\n    net(x.to(device)).sum().backward()\n    # show(x, y)\n": False,
    "for n in range(3):\n    for p in net.parameters():\n        p.grad = None\n    for x, y in data:\n        for p in net.parameters():\n            p.grad = None\n        net(x.to(device)).sum().backward()\n    show(x, y)\n": False,
    "for n in range(3):\n    for x, y in data:\n        for p in net.parameters():\n            p.grad = None\n        net(x.to(device)).sum().backward()\n        show(x, y)\n": True,
}
HELPERS = {
    "def show(x, y):\n    print({0})\n": True,
    "def _text(x, y):\n    return {0}\n\n\ndef show(x, y):\n    print(_text(x, y))\n": True,
    "def show(x, y):\n    if x.log_every:\n        print({0})\n": False,
}


@pytest.mark.parametrize(("read", "helper", "caller"), crossed(READS, list(HELPERS), list(CALLERS), rounds=4))  # fmt: skip
def test_a_read_in_a_function_that_a_step_calls(tmp_path: Path, read: str, helper: str, caller: str) -> None:  # fmt: skip
    report = reported(tmp_path, {"lib/text.py": HEAD + helper.format(read), "train.py": "from lib.text import show\n" + HEAD + caller})  # fmt: skip
    assert ("HPU513" in codes(report, "lib/text.py")) == (HELPERS[helper] and CALLERS[caller])


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(("when", "told"), [("self.losses(x, y)", True), ("if n % 9 == 0:\n                self.losses(x, y)", False)])  # fmt: skip
def test_a_read_in_a_method_that_the_loop_calls(tmp_path: Path, read: str, when: str, told: bool) -> None:  # fmt: skip
    text = f"class Coach:\n    def train(self):\n        for n, (x, y) in enumerate(self.data):\n            x, y = x.to(device), y.to(device)\n            self.net(x).sum().backward()\n            {when}\n\n    def losses(self, x, y):\n        return {read}\n"  # fmt: skip
    assert ("HPU513" in codes(reported(tmp_path, {"train.py": HEAD + text}), "train.py")) == told


@pytest.mark.parametrize("cut", ["x.masked_select(x > 0)", "torch.unique(x)", "x.nonzero()"])
@pytest.mark.parametrize(
    ("user", "told"),
    [
        ("from torch.utils.data import Dataset\nfrom lib.cut import cut\nclass Data(Dataset):\n    def __getitem__(self, n):\n        return cut(self.x[n])\n", False),
        ("from lib.cut import cut\nclass Net(nn.Module):\n    def forward(self, x):\n        return cut(x)\n", True),
        ("from torch.utils.data import Dataset\nfrom lib.cut import cut\nclass Data(Dataset):\n    def __getitem__(self, n):\n        return cut(self.x[n])\nclass Net(nn.Module):\n    def forward(self, x):\n        return cut(x)\n", True),
    ],
)  # fmt: skip
def test_what_workers_cut_on_the_cpu_costs_no_step(tmp_path: Path, cut: str, user: str, told: bool) -> None:  # fmt: skip
    plain = "import torch\n\n\ndef cut(x: torch.Tensor, device=None):\n    x = torch.relu(x) + torch.ones(3, device=device)\n    return {0}\n"
    files = {"lib/cut.py": plain.format(cut), "lib/user.py": "import torch\nfrom torch import nn\n" + user, "train.py": "from lib.user import *\n" + HEAD + "for x in data:\n    net(x.to(device)).sum().backward()\n"}  # fmt: skip
    assert bool(codes(reported(tmp_path, files), "lib/cut.py") & {"HPU514", "HPU515"}) == told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("torch.cuda.device_count()", True),
        ("int(os.environ['WORLD_SIZE'])", False),
        ("dist.get_world_size()", False),
        ("int(os.getenv('WORLD_SIZE', 1))", False),
        ("args.world_size", False),
        ("args.n_gpu", True),
    ],
)
@pytest.mark.parametrize("way", ["num_gpus = {0}\n", "count = {0}\nnum_gpus = count\n"])
def test_a_number_of_processes_is_none_of_devices(tmp_path: Path, given: str, told: bool, way: str) -> None:  # fmt: skip
    text = "import os\nimport torch\nimport torch.distributed as dist\n\ntorch.cuda.set_device(0)\n" + way.format(given) + "batch_size = args.batch_size // num_gpus\n"  # fmt: skip
    assert ("HPU323" in codes(reported(tmp_path, {"train.py": text}), "train.py")) == told


def test_a_package_is_imported_before_a_module_of_its_name(tmp_path: Path) -> None:
    files = {"lib/__init__.py": "", "lib/policy.py": "import torch\nx.cuda()\n", "lib/policy/__init__.py": "from lib.policy.net import Net\n", "lib/policy/net.py": HEAD, "train.py": "from lib.policy import Net\n" + HEAD + "loss.backward()\n"}  # fmt: skip
    report = reported(tmp_path, files)
    assert "lib/policy.py" in report.around
    assert {"lib/policy/__init__.py", "lib/policy/net.py"} <= report.reached
