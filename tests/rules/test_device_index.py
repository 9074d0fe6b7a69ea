"""Devices whose index is read again keep one; those of which nobody reads it lose it."""

from __future__ import annotations

import ast
import re

import pytest
from crossed import crossed

from codemods.analysis.project_facts import NEGATIVE_OPTIONS
from hpushim.engine.base.text import Project
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Style, Target

TEXTS = ['f"cuda:{n}"', '"cuda:%d" % n', '"cuda:" + str(n)', '"cuda:{}".format(n)', '"cuda:3"']
#: Where a device is kept, and how it is read there.
HOLDERS = {
    "device": "device = {}",
    "place": "place = {}\nmodel.to(place)",
    "self.device": "class A:\n    def __init__(self, n):\n        self.device = {}\n",
    "args.device": "args.device = {}",
}
READS = [
    "int({}.split(':')[1])",
    "int({}.split(':')[-1])",
    "int({}.split(':', 1)[1])",
    "int({}.rsplit(':', maxsplit=1)[-1])",
    "int({}.partition(':')[2])",
    "int({}[5:])",
]
OTHERS = ["{}.split(':')[0]", "{}[:4] == 'cuda'", "{}.type", "names.index({})", "print({})"]


def migrated(text: str, style: Style = "native") -> str:
    context = Context(Target(mode="eager", style=style), load())
    after = settle(text, "python", "train.py", context).text
    ast.parse(after)
    assert settle(after, "python", "train.py", context).text == after
    return after


@pytest.mark.parametrize(
    ("text", "holder", "read"),
    crossed(TEXTS, HOLDERS, [*READS, "_, k = {}.split(':')", "torch.device({}).index"], rounds=4),
)
def test_an_index_that_is_read_stays(text: str, holder: str, read: str) -> None:
    indented = "    def f(self):\n        " if holder.startswith("self") else ""
    use = read.format(holder)
    line = use if "=" in use.partition("(")[0] else f"number = {use}"
    after = migrated(f"import torch\n\n{HOLDERS[holder].format(text)}\n{indented}{line}\n")
    assert '"hpu:0"' in after
    assert "cuda" not in after
    assert "[5:]" not in after


@pytest.mark.parametrize("read", READS)
def test_what_is_read_is_a_number(read: str) -> None:
    """The migrated code runs."""
    after = migrated(f"import torch\n\ndevice = 'cuda:3'\nnumber = {read.format('device')}\n")
    found: dict[str, object] = {}
    exec(after, found)
    assert found["number"] == 0


@pytest.mark.parametrize(("text", "holder", "read"), crossed(TEXTS, HOLDERS, OTHERS, rounds=4))
def test_other_reads_keep_no_index(text: str, holder: str, read: str) -> None:
    indented = "    def f(self):\n        " if holder.startswith("self") else ""
    line = f"found = {read.format(holder)}"
    after = migrated(f"import torch\n\n{HOLDERS[holder].format(text)}\n{indented}{line}\n")
    assert '"hpu"' in after
    assert "hpu:0" not in after


@pytest.mark.parametrize("read", READS)
def test_on_cuda_the_dual_style_reads_the_same_index(read: str) -> None:
    after = migrated(
        f"import torch\n\ndevice = 'cuda:3'\nnumber = {read.format('device')}\n", "dual"
    )
    for accelerator, number in (("cuda", 3), ("hpu", 0)):
        found: dict[str, object] = {}
        exec(re.sub(r"(?m)^ACCELERATOR = .*", f"ACCELERATOR = '{accelerator}'", after), found)
        assert found["number"] == number


#: Where a negative index comes from, and what is written for it.
NEGATIVE = {
    "torch.cuda.set_device(-1)": "set_device(0)",
    "gpu = -1\ntorch.cuda.set_device(gpu)": "set_device(max(gpu, 0))",
    "def main(gpu=-1):\n    torch.cuda.set_device(gpu)": "set_device(max(gpu, 0))",
    "p.add_argument('--gpu', type=int, default=-1)\ntorch.cuda.set_device(p.parse_args().gpu)": "set_device(max(p.parse_args().gpu, 0))",
    "p.add_argument('--gpu', type=int, default=-1)\nargs = p.parse_args()\ntorch.cuda.set_device(args.gpu)": "set_device(max(args.gpu, 0))",
    "p.add_argument('--gpu', type=int, default=-1)\nargs = p.parse_args()\nif args.gpu >= 0:\n    torch.cuda.set_device(args.gpu)": "set_device(args.gpu)",
    "p.add_argument('--gpu', type=int, default=0)\nargs = p.parse_args()\ntorch.cuda.set_device(args.gpu)": "set_device(args.gpu)",
    "gpu = 1\ntorch.cuda.set_device(gpu)": "set_device(gpu)",
    "gpu = -1\ngpu = find()\ntorch.cuda.set_device(gpu)": "set_device(gpu)",
}


@pytest.mark.parametrize("written", NEGATIVE)
def test_a_negative_index_which_cuda_ignores_is_the_first(written: str) -> None:
    front = "import argparse\n\nimport torch\n\np = argparse.ArgumentParser()\n"
    assert f"torch.hpu.{NEGATIVE[written]}" in migrated(f"{front}{written}\n")


@pytest.mark.parametrize("style", ["dual", "agnostic"])
def test_other_styles_keep_it(style: Style) -> None:
    assert "max(" not in migrated("import torch\n\ntorch.cuda.set_device(-1)\n", style)


DECLARED = ["p.add_argument('--gpu', '-gpu', default=-1)", "p.add_argument('--gpu', type=int, default = -1, help='(x)')", "@click.option('--gpu', default=-1)", "p.add_argument('--gpu', type=int, default=0)"]  # fmt: skip
#: What is written for an option of that name which another file declares with the first three.
FAR = {
    "self.opt.gpu": True,
    "args.gpu": True,
    "args.rank": False,
    "gpu": False,
}


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("index", FAR)
def test_the_option_that_holds_it_is_declared_elsewhere(declared: str, index: str) -> None:
    names = frozenset(name.decode() for name in NEGATIVE_OPTIONS.find(declared.encode()))
    project = Project(collected=((NEGATIVE_OPTIONS.name, names),))
    context = Context(Target(mode="eager"), load(), project)
    lines = "import torch\n\n\ndef f(self, args, gpu):\n"
    after = settle(f"{lines}    torch.cuda.set_device({index})\n", "python", "train.py", context).text  # fmt: skip
    assert (f"set_device(max({index}, 0))" in after) is (FAR[index] and "-1" in declared)
    guarded = f"{lines}    if {index} >= 0:\n        torch.cuda.set_device({index})\n"
    assert "max(" not in settle(guarded, "python", "train.py", context).text


#: What gives a name the index, and what makes it a device afterwards, or in another branch.
INDICES = ["device = args.gpu", "rank, device = find()", "_, (a, device) = find()", "device = int(os.environ['LOCAL_RANK'])"]  # fmt: skip
DEVICES = ["torch.device('cuda', {0})", "str(torch.device('cuda', {0}))", "f'cuda:{{{0}}}'", "'cuda:%d' % {0}"]  # fmt: skip
ORDERS = [
    "if many:\n        {index}\n        torch.cuda.set_device(device)\n        device = {one}\n    elif one:\n        device = 'cuda' if torch.cuda.is_available() else 'cpu'\n    else:\n        torch.cuda.set_device(args.rank)\n        device = {two}",
    "{index}\n    torch.cuda.set_device(device)\n    device = {one}",
    "if one:\n        device = {two}\n    else:\n        {index}\n        if many:\n            torch.cuda.set_device(device)\n        device = {one}",
]


@pytest.mark.parametrize(("index", "device", "order"), crossed(INDICES, DEVICES, ORDERS, rounds=3))
def test_an_index_that_becomes_a_device_later_is_one_until_then(index: str, device: str, order: str) -> None:  # fmt: skip
    lines = order.format(index=index, one=device.format("device"), two=device.format("args.rank"))
    text = f"import os\n\nimport torch\n\n\ndef main(args, one, many):\n    {lines}\n    return device\n"
    after = migrated(text)
    assert "torch.hpu.set_device(device)" in after
    assert "cuda" not in after


@pytest.mark.parametrize("device", [each for each in DEVICES if "str(" not in each])
@pytest.mark.parametrize("between", ["", "    if many:\n        print(device)\n"])
def test_a_device_that_is_one_already_gives_its_index(device: str, between: str) -> None:
    text = f"import torch\n\n\ndef main(rank, many):\n    device = {device.format('rank')}\n{between}    torch.cuda.set_device(device)\n    return device\n"
    assert "torch.hpu.set_device(rank)" in migrated(text)
