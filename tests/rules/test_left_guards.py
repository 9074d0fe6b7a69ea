"""A check for CUDA stays, and is reported, where it keeps the program from code that cannot run on Gaudi."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed

from hpushim.engine.project import analyse
from hpushim.model import Target

CHECKS = ["torch.cuda.is_available()", "torch.cuda.device_count() > 0", "0 < torch.cuda.device_count()", "x.is_cuda"]  # fmt: skip
BUILD = "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\nsetup(name='ours', ext_modules=[CUDAExtension('ours.gpu', ['ours/k.cu'])])\n"
#: What only the check lets the program come to: an extension that the project builds.
IMPORTS = [
    "from ours import gpu",
    "from . import gpu",
    "from .. import gpu as kernels",
    "import ours.gpu",
    "from ours.gpu import forward",
    "from . import cpu, gpu",
]
GUARDS = [
    "if {0}:\n    {1}\n",
    "if {0}:\n    {1}\nelse:\n    gpu = None\n",
    "if not {0}:\n    gpu = None\nelse:\n    {1}\n",
    "def load(x):\n    if {0}:\n        {1}\n        return True\n    return False\n",
    "has = {0}\nif has and x.dim():\n    {1}\n",
]
#: A package for NVIDIA GPUs: its import, and a call.
PACKAGES = {
    "import xformers.ops as xops": "xops.memory_efficient_attention(q, q, q)",
    "import flash_attn": "flash_attn.flash_attn_func(q, q, q)",
    "from flash_attn import (\n    flash_attn_func as fast,\n    other,\n)": "fast(q, q, q)",
    "try:\n    from flash_attn import flash_attn_func\nexcept ImportError:\n    flash_attn_func = None": "flash_attn_func(q, q, q)",
    "try:\n    import xformers.ops as xops\nexcept ImportError:\n    pass": "xops.ops.attention(q, q, q)",
}
#: Functions that cannot do without it, and those that can.
NEEDS = [
    "def fast_path(q): return {}\n",
    "def fast_path(q):\n    return {}\n",
    "def fast_path(q):\n    if q.dim() > 4:\n        raise ValueError('shape')\n    out = {}\n    return out\n",
    "def inner(q):\n    return {}\ndef fast_path(q):\n    q = q + 1\n    return inner(q)\n",
]
DOES_WITHOUT = [
    "def fast_path(q):\n    if not FAST:\n        return q\n    return {}\n",
    "def fast_path(q):\n    if FAST:\n        return {}\n    return q\n",
    "def fast_path(q):\n    return q + 1\n",
]
CHOICES = [
    "attend = fast_path if {0} else plain\n",
    "attend = plain if not {0} else fast_path\n",
    "if {0}:\n    attend = fast_path\nelse:\n    attend = plain\n",
    "def run(x):\n    if {0}:\n        return fast_path(x)\n    return plain(x)\n",
    "def pick(x):\n    if not {0}:\n        return plain\n    return fast_path\n",
    "class Params:\n    attend: object = fast_path if {0} else plain\n",
]
PLAIN = "def plain(q):\n    return q\nx = torch.zeros(2)\nFAST = False\n"


def stays(tmp_path: Path, files: dict[str, str], looked: str) -> bool:
    """Does the check in a file stay, with a finding on it?"""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    found = {f.path: f.findings for f in analyse([tmp_path], Target(), jobs=1).files}[looked]
    on_check = [f for f in found if f.code in ("HPU028", "HPU106", "HPU108", "HPU110")]
    assert on_check, "the check is reported in any case"
    return all(f.fix is None for f in on_check)


@pytest.mark.parametrize(("guard", "check", "written"), crossed(GUARDS, CHECKS, IMPORTS, rounds=2))
def test_it_stays_before_the_import_of_an_extension(
    tmp_path: Path, guard: str, check: str, written: str
) -> None:
    text = f"import torch\nx = torch.zeros(2)\n{guard.format(check, written)}"
    files = {"setup.py": BUILD, "ours/__init__.py": "", "ours/sub/__init__.py": "", "ours/k.cu": ""}
    assert stays(tmp_path, {**files, "ours/sub/ops.py": text}, "ours/sub/ops.py")


@pytest.mark.parametrize("guard", GUARDS)
def test_it_turns_before_another_import(tmp_path: Path, guard: str) -> None:
    text = f"import torch\nx = torch.zeros(2)\n{guard.format(CHECKS[0], 'from ours import cpu')}"
    files = {"setup.py": BUILD, "ours/__init__.py": "", "ours/k.cu": "", "ours/cpu.py": ""}
    assert not stays(tmp_path, {**files, "ours/ops.py": text}, "ours/ops.py")


@pytest.mark.parametrize(("choice", "check", "package", "needs"), crossed(CHOICES, CHECKS, PACKAGES, NEEDS, rounds=2))  # fmt: skip
@pytest.mark.parametrize("beside", [False, True])
def test_it_stays_where_it_chooses_what_needs_such_a_package(
    tmp_path: Path, choice: str, check: str, package: str, needs: str, beside: bool
) -> None:
    defined = f"{package}\n{needs.format(PACKAGES[package])}"
    files = {"ours/attention.py": defined} if beside else {}
    front = "from ours.attention import fast_path\n" if beside else defined
    text = f"import torch\n{front}{PLAIN}{choice.format(check)}"
    assert stays(tmp_path, {**files, "main.py": text}, "main.py")


@pytest.mark.parametrize(("choice", "package", "without"), crossed(CHOICES, PACKAGES, DOES_WITHOUT, rounds=2))  # fmt: skip
def test_it_turns_where_the_chosen_code_does_without(
    tmp_path: Path, choice: str, package: str, without: str
) -> None:
    front = f"{package}\n{without.format(PACKAGES[package])}"
    text = f"import torch\n{front}{PLAIN}{choice.format(CHECKS[0])}"
    assert not stays(tmp_path, {"main.py": text}, "main.py")


@pytest.mark.parametrize(("package", "call"), PACKAGES.items())
def test_it_stays_where_the_package_itself_is_chosen(
    tmp_path: Path, package: str, call: str
) -> None:
    text = f"import torch\n{package}\n{PLAIN}def run(q):\n    if q.is_cuda:\n        return {call}\n    return q\n"
    assert stays(tmp_path, {"main.py": text}, "main.py")


@pytest.mark.parametrize("choice", [each for each in CHOICES if "return fast_path(x)" not in each])
def test_a_name_that_gets_another_meaning_needs_no_package(tmp_path: Path, choice: str) -> None:
    text = f"import torch\ntry:\n    from flash_attn import fast_path\nexcept ImportError:\n    def fast_path(q):\n        return q\n{PLAIN}{choice.format(CHECKS[0])}"
    assert not stays(tmp_path, {"main.py": text}, "main.py")


def test_a_check_without_another_way_turns(tmp_path: Path) -> None:
    text = f"import torch\nfrom flash_attn import fast_path\n{PLAIN}if torch.cuda.is_available():\n    x = x.cuda()\n    x = fast_path(x)\n"
    assert not stays(tmp_path, {"main.py": text}, "main.py")


#: faiss with GPUs: how a function comes to use it, and how its flag is passed on.
ON_GPUS = ["faiss.index_cpu_to_all_gpus(index)", "faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)", "faiss.GpuIndexFlatIP(res, 8)"]  # fmt: skip
FLAGGED = [
    "def near_gpu(x, index):\n    index = {}\n    return index.search(x, 3)\ndef near(x, index, use_gpu=False):\n    return near_gpu(x, index) if use_gpu else x\n",
    "def near(x, index, use_gpu):\n    if use_gpu:\n        index = {}\n    return index.search(x, 3)\n",
    "def inner(x, index, fast):\n    if fast:\n        index = {}\n    return index\ndef near(x, index, use_gpu=True):\n    return inner(x, index, fast=use_gpu)\n",
    "def inner(x, index, fast):\n    return {} if fast else index\ndef near(x, index, use_gpu=True):\n    return inner(x, index, use_gpu)\n",
]
HANDED = ["near(x, x, use_gpu={0})", "near(x, x, {0})", "on = {0}\nnear(x, x, on)", "near(x, index=x, use_gpu=bool({0}))"]  # fmt: skip


@pytest.mark.parametrize(("defined", "call", "handed", "check"), crossed(FLAGGED, ON_GPUS, HANDED, CHECKS, rounds=2))  # fmt: skip
@pytest.mark.parametrize("beside", [False, True])
def test_it_stays_where_a_parameter_takes_it_there(
    tmp_path: Path, defined: str, call: str, handed: str, check: str, beside: bool
) -> None:
    library = f"import faiss\n{defined.format(call)}"
    files = {"near.py": library} if beside else {}
    front = "from near import near\n" if beside else library
    text = f"import torch\n{front}x = torch.zeros(2)\n{handed.format(check)}\n"
    assert stays(tmp_path, {**files, "main.py": text}, "main.py")


@pytest.mark.parametrize("handed", HANDED)
@pytest.mark.parametrize("call", ["faiss.IndexFlatIP(8)", "index"])
@pytest.mark.parametrize("beside", [False, True])
def test_it_turns_where_the_parameter_leads_elsewhere(
    tmp_path: Path, handed: str, call: str, beside: bool
) -> None:
    library = f"import faiss\n{FLAGGED[1].format(call)}"
    files = {"near.py": library} if beside else {}
    front = "from near import near\n" if beside else library
    text = f"import torch\n{front}x = torch.zeros(2)\n{handed.format(CHECKS[0])}\n"
    assert not stays(tmp_path, {**files, "main.py": text}, "main.py")
