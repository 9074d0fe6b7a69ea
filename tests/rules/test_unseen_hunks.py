"""What rewrites leave, commands in notebooks and in ``python -c``, shares of devices, extensions of apex: forms of hunks that readers drew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crossed import crossed
from one_text import settled

from hpushim.engine.project import analyse
from hpushim.model import Finding, Target


def found(root: Path, files: dict[str, str]) -> dict[str, list[Finding]]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return {file.path: file.findings for file in analyse([root], target=Target()).files}


# -- what a decision leaves ---------------------------------------------------------------------

OPTIONS = {
    "use = {0}\n    kw = dict(fused=True) if use else dict()\n    return AdamW(p, **kw)": "kw = dict()\n    return AdamW(p, **kw)",
    "use = c.new and {0}\n    print(f'fused: {{use}}')\n    return AdamW(p, **(dict(fused=True) if use else {{}}))": "use = False\n    print(f'fused: {{use}}')\n    return AdamW(p, **(dict(fused=True) if use else {{}}))",
    "kw = {{}}\n    if {0}:\n        kw = dict(fused=True)\n    return AdamW(p, **kw)": "kw = {{}}\n    return AdamW(p, **kw)",
    "if {0}:\n        kw = dict(fused=True)\n    else:\n        kw = {{}}\n    return AdamW(p, **kw)": "kw = {{}}\n    return AdamW(p, **kw)",
    "return AdamW(p, fused={0} and c.fast)": "return AdamW(p, fused=False)",
}
CHECKS = ["c.device == 'cuda'", "torch.cuda.is_available()", "'cuda' in c.device"]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("check", CHECKS)
def test_no_decision_is_left_where_it_is_made(options: str, check: str) -> None:
    text = f"import torch\nfrom torch.optim import AdamW\n\n\ndef make(p, c):\n    {options.format(check)}\n"
    assert settled(text)[0] == text.replace(options.format(check), OPTIONS[options].format())


DEVICES = ["torch.device('cuda', n)", "torch.device(f'cuda:{n}')", "'cuda:%d' % n"]
CHOICES = {
    "if n < self.count:\n            self.device = {0}\n        else:\n            self.device = {1}": "self.device = {0}",
    "self.device = {0} if n < self.count else {1}": "self.device = {0}",
    "self.device = {0} if self.ask(n) else {1}": "self.device = {0} if self.ask(n) else {0}",
}


@pytest.mark.parametrize(("device", "choice"), crossed(DEVICES, list(CHOICES), rounds=2))
def test_two_branches_that_become_the_same_are_one(device: str, choice: str) -> None:
    head = "import torch\n\n\nclass Info:\n    def __init__(self, n):\n        "
    after = device.split("(", maxsplit=1)[0] + "('hpu')" if "(" in device else "'hpu'"
    text = head + choice.format(device, device.replace("n)", "n - 1)").replace("{n}", "{n - 1}").replace("% n", "% (n - 1)"))  # fmt: skip
    assert settled(text + "\n")[0] == head + CHOICES[choice].format(after) + "\n"


REMOVED = ["cudnn.benchmark = True", "torch.cuda.empty_cache()"]
COMMENTED = {
    "# For speed.\n    {0}\n\n    x = 1\n": "x = 1\n",
    "x = 1\n    # For speed.\n    {0}\n": "x = 1\n",
    "if y:\n        # For speed.\n        {0}\n        x = 1\n    return x\n": "if y:\n        # For speed.\n        x = 1\n    return x\n",
    "# For speed.\n    # And more.\n    {0}\n\n    x = 1\n": "# For speed.\n    # And more.\n\n    x = 1\n",
    "# TODO: for speed.\n    {0}\n\n    x = 1\n": "# TODO: for speed.\n\n    x = 1\n",
    "# For speed.\n    {0}\n    x = 1\n": "# For speed.\n    x = 1\n",
}


@pytest.mark.parametrize("removed", REMOVED)
@pytest.mark.parametrize("around", COMMENTED)
def test_a_comment_that_has_nothing_left_under_it_goes(around: str, removed: str) -> None:
    text = "import torch\nfrom torch.backends import cudnn\n\n\ndef f(y):\n    " + around.format(removed)  # fmt: skip
    after = settled(text)[0]
    assert after.endswith("def f(y):\n    " + COMMENTED[around])


SHOWN = ["print('{0} on: {{}}'.format({1}))", "print(f'{0} on: {{{1}}}')", "log.info('{0} on: %s' % {1})", "print('{0} on:', {1})"]  # fmt: skip


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("asked", ["is_available()", "device_count()"])
def test_a_text_names_the_device_whose_answer_it_shows(shown: str, asked: str) -> None:
    text = "import torch\n\n" + shown.format("CUDA", f"torch.cuda.{asked}") + "\n"
    assert settled(text)[0] == "import torch\n\n" + shown.format("HPU", f"torch.hpu.{asked}") + "\n"  # fmt: skip


# -- commands -----------------------------------------------------------------------------------


def book(lines: list[str], indent: int | None) -> str:
    source = [f"{line}\n" for line in lines[:-1]] + lines[-1:]
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}  # fmt: skip
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}, indent=indent)  # fmt: skip


COMMANDS = [
    ["!python train.py --lr 1 \\", "    --backend nccl"],
    ["x = 1", "if x:", "    !python train.py --backend nccl \\", "      --lr 1", "y = 2"],
    ["%%bash", "cd sub", "export A=1", "python train.py \\", "  --lr=1 \\", "  --backend nccl"],
    ["%%bash", "cd sub", "python train.py --backend nccl"],
    ['!python train.py --name "a" --backend "nccl"'],
    ["!python train.py --backend 'nccl' \\", '   --name="a b" \\', "   --lr 1"],
]


@pytest.mark.parametrize("lines", COMMANDS)
@pytest.mark.parametrize("indent", [None, 1])
def test_commands_of_notebooks(lines: list[str], indent: int | None) -> None:
    after, _ = settled(book(lines, indent), "notebook", "a.ipynb")
    assert json.loads(after) == json.loads(book(lines, indent).replace("nccl", "hccl"))


@pytest.mark.parametrize("above", [[], ["\n"], ["\n", "  \n"]])
@pytest.mark.parametrize("indent", [None, 1])
def test_no_blank_end_of_a_cell_is_left(above: list[str], indent: int | None) -> None:
    text = book(["import torch", "x = 1", *(line.rstrip("\n") for line in above), "torch.cuda.empty_cache()"], indent)  # fmt: skip
    after, _ = settled(text, "notebook", "a.ipynb")
    assert json.loads(after)["cells"][0]["source"] == ["import torch\n", "x = 1"]


ASKED = {"torch.cuda.device_count()": "torch.hpu.device_count()", "torch.cuda.is_available()": "torch.hpu.is_available()"}  # fmt: skip
AROUND = ["n=$(python -c 'import torch; print({0})')\n", 'torchrun --nproc_per_node=$(python3 -c "import torch;print({0})") train.py\n', "python -u -c 'import torch; assert {0}'\n"]  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("around", AROUND)
def test_the_code_of_python_c(around: str, asked: str) -> None:
    after, codes = settled(around.format(asked), "shell", "run.sh")
    assert after.splitlines()[-1] == around.format(ASKED[asked]).strip() and "HPU806" in codes


@pytest.mark.parametrize(("cards", "told"), [('""', False), ("", False), ("-1", False), ("0,1", True), ("$1", True)])  # fmt: skip
def test_a_run_that_hides_all_devices_needs_no_mode(cards: str, told: bool) -> None:
    _, codes = settled(f"CUDA_VISIBLE_DEVICES={cards} python train.py --epochs 3\n", "shell", "run.sh")  # fmt: skip
    assert ("HPU809" in codes) == told


# -- numbers and packages -----------------------------------------------------------------------

FACTORS = {
    "share = {0} / (c.workers + 1)": False,
    "share = {0} // c.num_workers": False,
    "lr = {0} / 8 * c.base": True,
    "bs = c.batch_size // {0}": True,
    "total = c.batch_size * {0}": True,
    "workers = c.workers * {0}": True,
}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("count", ["torch.cuda.device_count()", "num_gpus"])
def test_a_share_of_the_devices_is_no_scaled_number(factor: str, count: str) -> None:
    text = f"import torch\n\n\ndef f(c, x, num_gpus):\n    x.cuda()\n    {factor.format(count)}\n"
    assert ("HPU323" in settled(text)[1]) == FACTORS[factor]


@pytest.mark.parametrize("name", ["amp_C", "fused_layer_norm_cuda", "scaled_masked_softmax_cuda"])
@pytest.mark.parametrize("brought", ["import {0}", "import importlib\n\nfused = importlib.import_module('{0}')", "from importlib import import_module\n\nfused = import_module('{0}')"])  # fmt: skip
@pytest.mark.parametrize("builds", [False, True])
def test_extensions_of_apex(tmp_path: Path, name: str, brought: str, builds: bool) -> None:
    files = {"a.py": f"import torch\n{brought.format(name)}\n\nx = torch.ones(2).cuda()\n"}
    if builds:
        files["setup.py"] = f"from torch.utils.cpp_extension import CUDAExtension\nfrom setuptools import setup\n\nsetup(ext_modules=[CUDAExtension('{name}', ['a.cu'])])\n"  # fmt: skip
    codes = [each.code for each in found(tmp_path, files)["a.py"]]
    assert ("HPU709" in codes, "HPU723" in codes) == (not builds, builds)


#: A comment above a statement that goes, what is below the gap, and whether the comment goes with it.
COMMENTS = {
    ("# For fast training.", "x = 1"): True,
    ("# Load the data, then go on.", "data = load()"): False,
    ("# flake8: noqa", "x = 1"): False,
    ("# yapf: disable", "x = 1"): False,
    ("# In[3]:", "x = 1"): False,
    ("# eslint-style: ignore", "x = 1"): False,
}
STARTS = ["import torch\n\n", "import torch\n\ny = 1\n\n"]


@pytest.mark.parametrize(("comment", "below"), COMMENTS)
@pytest.mark.parametrize("above", STARTS)
def test_a_comment_above_a_gap(above: str, comment: str, below: str) -> None:
    text = f"{above}{comment}\ntorch.backends.cudnn.benchmark = True\n\n{below}\n"
    after = settled(text)[0]
    assert "cudnn" not in after and (comment not in after) is COMMENTS[comment, below]


@pytest.mark.parametrize("head", ["# Copyright of somebody", "# SPDX-License-Identifier: MIT", "# coding: utf-8", "# About this file."])  # fmt: skip
def test_the_first_comment_of_a_file_stays(head: str) -> None:
    after = settled(f"{head}\nimport torch.backends.cudnn as cudnn\n\nimport torch\n\ncudnn.benchmark = True\n")[0]  # fmt: skip
    assert after.startswith(head) and "cudnn" not in after


#: Objects that are no tensors, by what a file does with them.
READ = {
    "def f(x):\n    return getattr(x, 'is_cuda', False)": True,
    "from operator import attrgetter\n\nf = attrgetter('is_cuda')": True,
    "n = getattr(torch.version, 'is_cuda', None)": False,
    "class C:\n    def __init__(self):\n        self.is_cuda = 1\n\n\nn = getattr(C(), 'is_cuda', 0)": False,
    "class C:\n    def __init__(self):\n        self.is_cuda = 1\n\n    def f(self):\n        return getattr(self, 'is_cuda', 0)": False,
}


@pytest.mark.parametrize("text", READ)
def test_is_cuda_by_its_name(text: str) -> None:
    codes = settled(f"import torch\n\n{text}\nx = torch.ones(1).cuda()\n")[1]
    assert ("HPU106" in codes) is READ[text]


#: What decides about a fused optimizer, and whether it may do more than answer.
DECIDES = {"cfg.pop('fused')": True, "cfg.fused": False, "'fused' in cfg": False, "take(cfg)": True}


@pytest.mark.parametrize("decides", DECIDES)
@pytest.mark.parametrize("use", ["fused={0} and torch.cuda.is_available()", "**(dict(fused=True) if {0} and torch.cuda.is_available() else {{}})"])  # fmt: skip
def test_what_does_more_than_answer_stays(decides: str, use: str) -> None:
    text = f"import torch\n\n\ndef f(model, cfg):\n    return torch.optim.AdamW(model.parameters(), {use.format(decides)})\n"
    after, codes = settled(text)
    assert (decides in after) is DECIDES[decides]
    assert "torch.cuda" not in after and codes == ["HPU605"]
