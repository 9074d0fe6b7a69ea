"""Values that are given by each other, in a circle: every question that rules ask of them ends, and says nothing twice."""

from __future__ import annotations

from typing import Literal

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine, settle
from hpushim.matrix import load
from hpushim.model import Target

#: What makes `a` and `b` of each other.
CIRCLES = (
    "b = a\na = b\n",
    "a = {'': b}\nb = {'': a}\n",
    "a = {'': a}\n",
    "b = [a, *a]\na = [b] + ['torch==1.2+cu118']\n",
    "b = a + ['torch==1.2+cu118']\na = b + ['faiss-gpu']\n",
    "for a in b:\n    b = a\n    a = [b]\n",
    "def f(a):\n    return f(a)\n\n\na = f(b)\nb = f(a)\n",
    "class A:\n    def __init__(self, x):\n        self.x = x.x\n\n\nb = A(a)\na = A(b.x)\na.x = b\n",
    "class A(B):\n    x = B.x\n\n\nclass B(A):\n    x = A.x\n\n\na = A.x\nb = B.x\na = {'': a, 'y': b}\n",
    "a = b if b else a\nb = a or b or {'': a}\n",
    "a = lambda: b\nb = a()\na = b()\n",
    "while a:\n    a, b = b, a\n    a = torch.cat([a, b])\n    b = a[a > b]\n",
    "a = torch.load(b)\nb = torch.load(a)['x']\na = a.cuda()\n",
)
#: What rules look up of them.
USES = (
    "m = AutoModel.from_pretrained('x', device_map={})",
    "m = AutoModel.from_pretrained('x', torch_dtype={0}, attn_implementation={0})",
    "m = torch.load('x', map_location={})",
    "{}.to('cuda')",
    "x = torch.zeros(2, device={})",
    "x = torch.zeros(2).to({})",
    "x = {0}[{0} > 0].cuda()",
    "x = torch.arange(int({}.item()))",
    "setup(install_requires={0}, extras_require={0})",
    "Trainer(accelerator={0}, devices={0}, strategy={0}, precision={0})",
    "deepspeed.initialize(config={0}, model={0})",
    "DDP({0}, device_ids={0})",
    "DataLoader({0}, batch_size={0}, pin_memory={0}, collate_fn={0})",
    "dist.init_process_group({0}, rank={0})",
    "with torch.autocast({0}, dtype={0}):\n    {0}.backward()",
    "torch.cuda.set_device({0})",
    "os.environ['CUDA_VISIBLE_DEVICES'] = {0}",
    "subprocess.run([{0}, '--device', {0}])",
    "for epoch in {0}:\n    loss = {0}({0})\n    loss.backward()\n    print(loss.item(), {0})",
    "if {0} == 'cuda' or {0}.type == 'cuda' or {0}.is_cuda:\n    {0} = {0}.cuda()",
)
HEAD = (
    "import os, subprocess\nimport deepspeed\nimport torch\nimport torch.distributed as dist\nfrom lightning import Trainer\nfrom setuptools import setup\n"
    "from torch.nn.parallel import DistributedDataParallel as DDP\nfrom torch.utils.data import DataLoader\nfrom transformers import AutoModel\n"
)
CONTEXTS = {style: Context(Target(style=style), load()) for style in ("native", "dual", "agnostic")}


@pytest.mark.parametrize("style", CONTEXTS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("circle", CIRCLES)
def test_what_is_asked_of_a_circle_ends(circle: str, use: str, style: Literal["native", "dual", "agnostic"]) -> None:  # fmt: skip
    text = HEAD + circle + use.format("a") + "\n"
    for path in ("a.py", "setup.py"):
        done = settle(text, "python", path, CONTEXTS[style])
        assert not [f.message for f in done.findings if f.code == "HPU004"]


def test_containers_that_hold_each_other_by_many_keys_are_looked_at_to_the_end() -> None:
    stores = "".join(f"    {x}['k{i}'] = {y}\n" for i in range(10) for x in "abcd" for y in "abcd")
    text = f"import torch\n\n\ndef f(path, b, c, d):\n    a = torch.load(path)\n{stores}    g(a)\n    return a.x\n"
    assert [found.code for found in examine(text, "python", "m.py", CONTEXTS["native"])] == ["HPU615"]  # fmt: skip
