"""The agnostic style and the oldest torch of a project: what holds it, and what is written then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from agnostic import OLD_TORCH, without_accelerator, written_for

from hpushim.engine.project import analyse, migrate, undo
from hpushim.model import Target


@pytest.mark.parametrize(("path", "beside"), [("requirements.txt", "xformers{0}\n"), ("environment.yml", "dependencies:\n  - {1}\n"), ("docs/requirements.txt", "torchvision{0}\n")])  # fmt: skip
@pytest.mark.parametrize(("pin", "conda", "old"), [("==0.0.19", "pytorch-cuda=11.7", True), ("<0.0.20", "python=3.8", True), (">=0.0.19", "python=3.10", False), ("==0.30", "numpy=1.21", False), ("", "python>=3.8", False)])  # fmt: skip
def test_the_oldest_torch_is_raised_with_its_partners(tmp_path: Path, path: str, beside: str, pin: str, conda: str, old: bool) -> None:  # fmt: skip
    (tmp_path / "docs").mkdir()
    needs = tmp_path / path
    lower = "  - pytorch>=1.9\n" if path.endswith("yml") else "torch>=1.9\n"
    needs.write_text(beside.format(pin, conda) + lower)
    (tmp_path / "others.txt").write_text("xformers==0.0.19\n")
    (tmp_path / "train.py").write_text("import torch\n\nx = torch.ones(2).cuda()\n")
    report = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    said = [f.message for file in report.files for f in file.findings if f.code == "HPU820"]
    assert needs.read_text().endswith(lower) is old
    assert any("hpushim does not raise it" in each for each in said) is old


NEW_TORCH: list[dict[str, str]] = [
    {},
    {"requirements.txt": "torch\n"},
    {"requirements.txt": "torch>=1.9\ntorchvision>=0.10\n"},
    {"setup.py": "from setuptools import setup\n\nsetup(\n    name='own',\n    python_requires='>=3.6',\n    classifiers=['Programming Language :: Python :: 3.8', 'Programming Language :: Python :: 3.10'])\n", "own/net.py": "import torch\n\n\ndef f(x):\n    return x.to('cuda')\n"},
    {"requirements.txt": "torch==2.7.1\ntorchvision==0.22\n"},
    {"setup.py": "from setuptools import setup\n\nsetup(name='own', install_requires=['torch>=1.9'])\n", "own/net.py": "import torch\n\n\ndef f(x):\n    return x.to('cuda')\n"},
]  # fmt: skip


#: What is rewritten, and the value of ``d`` afterwards: the accelerator, also where torch cannot say so.
FORMS = {
    "a choice": 'device = "cuda" if torch.cuda.is_available() else "cpu"',
    "a choice of devices": 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "a choice with more": 'device = torch.device("cuda" if torch.cuda.is_available() and not False else "cpu")',
    "a flag": 'use_cuda = torch.cuda.is_available()\ndevice = torch.device("cuda" if use_cuda else "cpu")',
    "a check": 'device = "cpu"\nif torch.cuda.is_available():\n    device = "cuda"',
    "a check that refuses": 'device = "cpu"\nif not torch.cuda.is_available():\n    print("no CUDA")\nelse:\n    device = torch.device("cuda")',
    "a demand": 'assert torch.cuda.is_available()\ndevice = "cuda"',
    "a default": 'def f(device="cuda"):\n    return device\ndevice = f() if torch.cuda.is_available() else "cpu"',
}  # fmt: skip


@pytest.mark.parametrize("held", OLD_TORCH)
@pytest.mark.parametrize("form", FORMS)
def test_where_torch_cannot_be_later_the_code_asks_it(tmp_path: Path, form: str, held: str) -> None:
    after = written_for(tmp_path, OLD_TORCH[held], f"import torch\n\n{FORMS[form]}\n")
    assert 'hasattr(torch, "accelerator")' in after
    for has in (True, False):
        there = mock.patch.object(torch.cuda, "is_available", return_value=True)
        new = mock.Mock(is_available=lambda: True, current_accelerator=lambda: torch.device("xpu"))
        with there, mock.patch.object(torch, "accelerator", new) if has else without_accelerator():
            names: dict[str, Any] = {}
            exec(compile(after, "train.py", "exec", dont_inherit=True), names)
        assert torch.device(names["device"]).type == ("xpu" if has else "cuda")
    if form != "a demand":
        names = {}
        with without_accelerator():
            exec(compile(after, "train.py", "exec", dont_inherit=True), names)
        assert torch.device(names["device"]).type == "cpu"


@pytest.mark.parametrize("files", NEW_TORCH)
@pytest.mark.parametrize("form", FORMS)
def test_where_torch_can_be_later_the_code_does_not_ask(tmp_path: Path, form: str, files: dict[str, str]) -> None:  # fmt: skip
    after = written_for(tmp_path, files, f"import torch\n\n{FORMS[form]}\n")
    assert "hasattr" not in after and "torch.accelerator" in after


@pytest.mark.parametrize("new", ["torch.cuda.synchronize()", "torch.cuda.set_device(0)", "e = torch.cuda.Event()", "s = torch.cuda.amp.GradScaler()", "print(torch.cuda.device_count())", 'torch.distributed.init_process_group("nccl")', "with torch.cuda.amp.autocast():\n    pass"])  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("torch_", "oldest"), [("torch==1.9.1", "1.9.1"), ("torch>=1.9,<2.1", "1.13.1"), ("torch==2.4.1", "2.4.1")])  # fmt: skip
def test_a_file_with_what_an_old_torch_lacks_stays_whole(tmp_path: Path, form: str, new: str, torch_: str, oldest: str) -> None:  # fmt: skip
    text = f"import torch\n\n{FORMS[form]}\n{new}\nif __name__ == '__main__':\n    pass\n"
    known = ("autocast" in new and oldest != "1.9.1") or ("GradScaler" in new and oldest == "2.4.1")
    after = written_for(tmp_path, {"requirements.txt": f"{torch_}\n"}, text)
    assert (after == text) is not known
    report = analyse([tmp_path], Target(style="agnostic"))
    said = [f.message for file in report.files for f in file.findings if file.path == "train.py"]
    assert any("leaves the file" in each and oldest in each for each in said) is not known


@pytest.mark.parametrize("torch_", ["torch==1.9.1", "torch==2.4.1"])
@pytest.mark.parametrize("ids", ["device_ids=[rank]", "device_ids=[args.rank], output_device=args.rank"])  # fmt: skip
def test_what_is_not_written_holds_no_file(tmp_path: Path, ids: str, torch_: str) -> None:
    """A fix for ``--unsafe`` that needs a later torch."""
    text = f"import torch\n\n\ndef f(m, rank, args):\n    m = m.cuda()\n    return torch.nn.parallel.DistributedDataParallel(m, {ids})\n"
    after = written_for(tmp_path, {"requirements.txt": f"{torch_}\n"}, text)
    assert "hasattr" in after and ids in after
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True, unsafe=True)
    assert "current_device_index" not in (tmp_path / "train.py").read_text()


@pytest.mark.parametrize("torch_", ["torch==1.9.1", "torch>=1.9"])
def test_a_notebook_gets_no_function_for_an_old_torch(tmp_path: Path, torch_: str) -> None:
    cells = ["import torch\n", 'device = "cuda" if torch.cuda.is_available() else "cpu"\n']
    book = {"cells": [{"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [cell]} for cell in cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}  # fmt: skip
    (tmp_path / "a.ipynb").write_text(json.dumps(book))
    (tmp_path / "requirements.txt").write_text(f"{torch_}\n")
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert ("accelerator" in (tmp_path / "a.ipynb").read_text()) is (">=" in torch_)


CHOOSES = 'import torch\n\ndevice = "cuda" if torch.cuda.is_available() else "cpu"\n'


#: Files with a pin of an old torch, and which files of the project run in that install: those ask torch, and bounds beside them stay.
INSTALLS: dict[str, tuple[dict[str, str], dict[str, bool]]] = {
    "a folder beside": ({"a/requirements.txt": "torch==1.9.1\n", "a/train.py": CHOOSES, "b/requirements.txt": "torch>=1.9\n", "b/train.py": CHOOSES}, {"a/train.py": True, "b/train.py": False, "b/requirements.txt": False}),
    "a folder below": ({"docs/requirements.txt": "torch==1.9.1\n", "docs/conf.py": "import torch\n", "requirements.txt": "torch>=1.9\n", "train.py": CHOOSES}, {"train.py": False}),
    "the folder around": ({"requirements.txt": "torch==1.9.1\n", "a/train.py": CHOOSES, "a/requirements.txt": "torch>=1.9\n"}, {"a/train.py": True, "a/requirements.txt": True}),
    "a folder without code": ({"env/requirements.txt": "torch==1.9.1\n", "requirements.txt": "torch>=1.9\n", "train.py": CHOOSES}, {"train.py": True, "requirements.txt": True}),
    "code that imports": ({"scripts/environment.yml": "dependencies:\n  - pytorch=1.9\n", "scripts/run.py": f"import own.net\n{CHOOSES}", "own/__init__.py": "", "own/net.py": CHOOSES, "pyproject.toml": '[project]\ndependencies = ["torch>=1.9"]\n'}, {"own/net.py": True, "scripts/run.py": True, "pyproject.toml": True}),
    "code that imports a part": ({"scripts/environment.yml": "dependencies:\n  - pytorch=1.9\n", "scripts/run.py": f"import own.net\n{CHOOSES}", "own/__init__.py": "", "own/net.py": CHOOSES, "own/cli.py": CHOOSES, "pyproject.toml": '[project]\ndependencies = ["torch>=1.9"]\n'}, {"own/net.py": True, "own/cli.py": False, "pyproject.toml": False}),
    "code that does not": ({"scripts/environment.yml": "dependencies:\n  - pytorch=1.9\n", "scripts/run.py": CHOOSES, "own/__init__.py": "", "own/net.py": CHOOSES, "pyproject.toml": '[project]\ndependencies = ["torch>=1.9"]\n'}, {"own/net.py": False, "scripts/run.py": True}),
}  # fmt: skip


@pytest.mark.parametrize("install", INSTALLS)
def test_a_pin_holds_what_its_install_runs(tmp_path: Path, install: str) -> None:
    files, held = INSTALLS[install]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {path: (tmp_path / path).read_text() for path in files}
    for path, old in held.items():
        asks = "hasattr(torch" in after[path] if path.endswith(".py") else "2.6" not in after[path]
        assert asks is old or "import default_device" in after[path], path
    again = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert not [file.path for file in again.files if file.status == "changed"]


#: What texts say of the torch that is installed, and whether it is one that may be a later one as well; None where they ask for nothing.
TEXTS: dict[str, bool | None] = {
    "```\nconda install pytorch=1.8 torchvision cudatoolkit=10.2 -c pytorch\n```": False,
    "    pip3 install --user torch==1.7.1+cu110 -f https://example.org": False,
    "This repository is built in PyTorch 1.8.1 and tested on Ubuntu 16.04 (Python3.7, CUDA10.2).": False,
    "* python3, pytorch 1.0, torchvision 0.2.1": False,
    "- [PyTorch](https://pytorch.org/) 0.4.1": False,
    "PyTorch version 1.1": False,
    "- PyTorch >= v0.4.0": True,
    "Requires PyTorch 1.7+ and Python 3.6": False,
    "* pytorch1.2.0": False,
    "* Python3.6.9": False,
    "conda create -y -n own python=3.7": False,
    "pip install torchvision==0.5": False,
    "Tested with torchvision 0.8.2": False,
    "- [PyTorch](https://pytorch.org/) (currently tested on version 0.4 and 1.0)": False,
    "PyTorch (tested with 1.4)": False,
    "It was trained on 2.5 TB of text. You can load that model from torch.hub (Pytorch >= 1.1):": None,
    "The other authors publish theirs for PyTorch >= 1.5.": None,
    "- Python 3.6, 3.7 or 3.11": None,
    "Requires Python 3.6+": None,
    "- python 3.10": None,
    "It does not require Python 2.7 anymore": None,
    "This no longer requires Python 3.6.": None,
    "Python 3.6 is not required": None,
    "Requires torch. Python 2.7 isn't tested": None,
    "Not only a library: requires Python 3.6": False,
    "Tested on Python 3.7 through 3.11": None,
    "Tested on Python 3.7 up to 3.12": None,
    "Tested on Python 3.7 to 3.12": None,
    "We no longer require PyTorch 1.4": None,
    "The models of pytorch1.2.0 are kept.": None,
    "- torch (1.2 or later)": True,
    "pip install 'torch>=1.6'": True,
    "pip install torch torchvision": None,
    "- PyTorch 2.7": None,
    "The code uses [PyTorch 2.0](https://example.org/2.0), whose compiler makes it fast.": None,
    "See issue pytorch-1.4 for that bug.": None,
}


@pytest.mark.parametrize(("path", "code"), [("README.md", "train.py"), ("docs/INSTALL.md", "train.py"), ("a/README.md", "a/train.py")])  # fmt: skip
@pytest.mark.parametrize("text", TEXTS)
def test_the_torch_of_a_documented_install_is_a_bound(tmp_path: Path, text: str, path: str, code: str) -> None:  # fmt: skip
    files = {path: f"# Own\n\n{text}\n", code: CHOOSES, "docs/conf.py": "x = 3\n", "b/other.py": CHOOSES}  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {name: (tmp_path / name).read_text() for name in files}
    assert ("hasattr" in after[code]) is (TEXTS[text] is False)
    assert ("hasattr" in after["b/other.py"]) is (TEXTS[text] is False and not path.startswith("a"))
    assert (after[path] != files[path]) is (TEXTS[text] is True)
    assert ("2.6" in after[path]) is (TEXTS[text] is True)
    again = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert not [file.path for file in again.files if file.status == "changed"]
    while undo(tmp_path).run:
        pass
    assert {name: (tmp_path / name).read_text() for name in files} == files


@pytest.mark.parametrize(("name", "text"), [("Dockerfile", "FROM pytorch/pytorch:1.9.0-cuda11.1-cudnn8-runtime\n"), ("Dockerfile", "FROM python:3.8\nRUN pip install torch==1.9.0\n"), ("install.sh", "conda install -y pytorch==1.9 -c pytorch\n")])  # fmt: skip
@pytest.mark.parametrize(("beside", "asks"), [({}, True), ({"requirements.txt": "torch>=1.6\n"}, True), ({"README.md": "- PyTorch >= 1.6\n"}, True)])  # fmt: skip
def test_an_image_or_a_script_is_an_install(tmp_path: Path, name: str, text: str, beside: dict[str, str], asks: bool) -> None:  # fmt: skip
    after = written_for(tmp_path, {name: text, **beside}, CHOOSES)
    assert ("hasattr" in after) is asks


@pytest.mark.parametrize("needs", [1, 2])
def test_the_function_in_a_package_is_no_code_for_cuda(tmp_path: Path, needs: int) -> None:
    """A second run finds the bound as the first one did."""
    uses = "import torch\nfrom own.utils import seed\n\n\ndef f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda(), torch.cuda.is_available()\n"
    files = {
        "setup.py": "from setuptools import setup\n\nsetup(name='own', install_requires=['torch>=1.9'])\n",
        "own/__init__.py": "",
        "own/utils.py": "import torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n",
        **{f"examples/a{n}.py": uses for n in range(needs)},
    }
    after = written_for(tmp_path, files, uses)
    assert "from own.utils import seed, default_device" in after


#: What a program says of the torch that it needs, and whether that is a bound.
CODED = {
    'if old:\n    warnings.warn("PyTorch version 1.7.1 or higher is recommended")': True,
    'assert new, "torch 1.8 or later is needed"': True,
    'raise RuntimeError("We need torch 1.8 or later")': True,
    'print(\n    "This program "\n    "requires PyTorch 1.8 or newer."\n)': True,
    'assert new, "torch 2.7 or later is needed"': False,
    'raise RuntimeError("scorch 1.0 or more is needed")': False,
    'print("torch 1.4 or later computes this on the device")': False,
    'x = "torch 1.8 or later is needed"': False,
    'print("see")  # torch 1.8 or later is needed': False,
    "# torch 1.8 or newer": False,
    "# requires torch 1.8 or newer": False,
    "# torch 1.4 or later computes this on the device.": False,
    '"""Torch 1.8 or later computes this on the device."""': False,
}


@pytest.mark.parametrize("pin", ["", "torch>=1.9\n", "torch>=2.6\n", "torch==1.9.1\n"])
@pytest.mark.parametrize("said", CODED)
def test_a_message_of_a_program_is_a_bound_where_no_file_has_one(tmp_path: Path, said: str, pin: str) -> None:  # fmt: skip
    files = {"own/net.py": f"import torch\nimport warnings\n\nold, new = False, True\n{said}\n", "requirements.txt": f"numpy\n{pin}"}  # fmt: skip
    after = written_for(tmp_path, files, CHOOSES)
    assert ("hasattr" in after) is ((CODED[said] and not pin) or pin == "torch==1.9.1\n")


@pytest.mark.parametrize(("old", "new"), [("scikit-learn==0.22.2", "scikit-learn==1.0"), ("numpy==1.17.*", "numpy>=1.17"), ("scipy<1.5", "scipy<2"), ("tensorflow==2.3.1", "tensorflow==2.9")])  # fmt: skip
@pytest.mark.parametrize("torch_", ["", "torch>=1.4\n"])
def test_a_package_without_wheels_for_a_newer_python_holds_torch(tmp_path: Path, old: str, new: str, torch_: str) -> None:  # fmt: skip
    for at, (pin, held) in enumerate(((old, True), (new, False))):
        folder = tmp_path / str(at)
        folder.mkdir()
        after = written_for(folder, {"requirements.txt": f"{pin}\n{torch_}"}, CHOOSES)
        assert ("hasattr" in after) is held


@pytest.mark.parametrize("pin", ["torch==0.2.0", "torch==0.3.1.post2", "torch==0.4.0"])
@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_written_for_a_torch_without_devices(tmp_path: Path, form: str, pin: str) -> None:  # fmt: skip
    text = f"import torch\n\n{FORMS[form]}\n"
    after = written_for(tmp_path, {"requirements.txt": f"{pin}\n"}, text)
    assert (after == text) is not pin.endswith("0.4.0")
