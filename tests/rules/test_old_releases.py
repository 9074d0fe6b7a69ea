"""Branches for releases that nobody runs: which conditions have one answer, and that nothing is told or rewritten behind them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomli
from test_imports import migrated

from hpushim.codemods.values.never_run import FLAGS, NeverRun
from hpushim.codemods.values.releases import PYTHON, TORCH
from hpushim.engine.assess import parse
from hpushim.engine.base.text import ALONE, Project
from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.matrix import load
from hpushim.model import Target

HEAD = """import operator
import sys

import torch
import transformers
from accelerate.utils import is_torch_version
from distutils.version import LooseVersion
from packaging import version
from ours import TORCH_VERSION

V = tuple(int(part) for part in torch.__version__.split(".")[:2])
MAJOR, MINOR = map(int, torch.__version__.split(".")[:2])
NUMBER = float(torch.__version__[:3])
OLDEST = "1.9"
OLD = LooseVersion(torch.__version__) < LooseVersion("1.6")
LIMIT = version.parse("1.12.1")


def is_old():
    return V < (1, 8)


"""
FALSE = [
    'torch.__version__ < "1.6"',
    "torch.__version__ < OLDEST",
    'torch.__version__ < (2, 1)',
    'LooseVersion(torch.__version__) < LooseVersion("1.6.0")',
    'version.parse(torch.__version__) <= version.parse("1.12.1")',
    "version.parse(torch.__version__) <= LIMIT",
    'version.parse("1.10") > version.parse(torch.__version__)',
    'version.parse(version.parse(torch.__version__).base_version) < version.parse("1.11")',
    'version.parse(torch.__version__).release < (1, 8)',
    "V < (1, 8)",
    "V == (1, 7)",
    "MAJOR == 1",
    "MAJOR == 1 and MINOR < 8",
    "MAJOR < 1 or (MAJOR == 1 and MINOR < 11)",
    "int(torch.__version__.split('.')[0]) < 2",
    "NUMBER < 1.7",
    "TORCH_VERSION < (1, 8)",
    "OLD",
    "not not OLD",
    "OLD and x.ok",
    "is_old()",
    'not hasattr(torch.cuda.amp, "autocast")',
    "sys.version_info[0] == 2",
    "sys.version_info < (3, 7)",
    "sys.version_info.major == 2",
    'torch.__version__.startswith(("1.7.", "1.8."))',
    'torch.__version__.split("+")[0] in ["1.4", "1.5"]',
    'is_torch_version("<", "2.0")',
    "operator.lt(version.parse(torch.__version__), version.parse('1.9'))",
]  # fmt: skip
OPEN = [
    'torch.__version__ < "2.9"',
    'torch.__version__ == "2.7.0"',
    "V >= (2, 7)",
    "NUMBER < 2.3",
    "MAJOR == 2",
    "MAJOR == 2 and MINOR < 3",
    "OLD or x.ok",
    "not (V >= (1, 6) and x.ok)",
    'torch.__version__ == "parrots"',
    'version.parse(transformers.__version__) < version.parse("4.0")',
    'x.__version__ < "1.6"',
    'torch.version.cuda < "10.2"',
    'hasattr(torch, "npu")',
    'hasattr(torch.hpu, "anything")',
    "sys.version_info >= (3, 12)",
    'is_torch_version(">=", "2.9")',
]


def gone(text: str, project: Project = ALONE) -> list[str]:
    """The source of what never runs."""
    module = parse(text, "train.py", Context(Target(), load(), project))
    return [module.source(n) for part in module.view(NeverRun).gone for n in part.nodes]


@pytest.mark.parametrize("condition", FALSE)
def test_a_condition_that_every_release_answers_with_no(condition: str) -> None:
    text = f"{HEAD}def f(x):\n    if {condition}:\n        x.cuda(1)\n    x.cuda(2)\n"
    assert "x.cuda(1)" in gone(text)
    assert "x.cuda(2)" not in gone(text)
    found = migrated(text)
    assert "x.cuda(1)" in found
    assert "x.cuda(2)" not in found


@pytest.mark.parametrize("condition", OPEN)
def test_a_condition_that_depends_on_the_release(condition: str) -> None:
    assert not gone(f"{HEAD}def f(x):\n    if {condition}:\n        x.cuda(1)\n    else:\n        x.cuda(2)\n")  # fmt: skip


@pytest.mark.parametrize("condition", FALSE)
def test_the_other_answer(condition: str) -> None:
    text = f"{HEAD}def f(x):\n    if not ({condition}):\n        x.cuda(1)\n    else:\n        x.cuda(2)\n"
    assert "x.cuda(2)" in gone(text)
    assert "x.cuda(1)" not in gone(text)


@pytest.mark.parametrize(
    ("body", "never"),
    [
        ("    if V >= (1, 6):\n        return x\n    x.cuda(1)\n", "x.cuda(1)"),
        ("    return x if V >= (1, 6) else x.cuda(1)\n", "x.cuda(1)"),
        ("    if V >= (1, 6):\n        new = True\n    else:\n        new = False\n    if not new:\n        x.cuda(1)\n", "x.cuda(1)"),
        ("    try:\n        from torch.cuda.amp import autocast\n    except ImportError:\n        x.cuda(1)\n", "x.cuda(1)"),
        ("    while OLD:\n        x.cuda(1)\n", "x.cuda(1)"),
    ],
)  # fmt: skip
def test_what_does_not_run(body: str, never: str) -> None:
    assert never in gone(f"{HEAD}def f(x):\n{body}")


@pytest.mark.parametrize(
    "body",
    [
        "    old = V < (1, 6)\n    if x:\n        old = True\n    if old:\n        x.cuda(1)\n",
        "    try:\n        from torch.cuda.amp import autocast\n        import apex\n    except ImportError:\n        x.cuda(1)\n",
        "    try:\n        x.run()\n    except ImportError:\n        x.cuda(1)\n",
        "    flag = False\n    if V < (1, 6):\n        flag = True\n    if x.flag:\n        x.cuda(1)\n",
    ],
)
def test_what_may_run(body: str) -> None:
    assert "x.cuda(1)" not in gone(f"{HEAD}def f(x):\n{body}")


def test_nothing_is_told_there_but_that_it_never_runs() -> None:
    text = f"{HEAD}if OLD:\n    from apex import amp\n    import spconv\n    model = torch.nn.DataParallel(model).cuda()\n"
    codes = [f.code for f in examine(text, "python", "train.py", Context(Target(), load()))]
    assert codes == ["HPU030"]


def test_a_flag_of_another_file() -> None:
    data = b'import torch\nNEW = Version(torch.__version__) >= Version("1.10")\nV = torch.__version__\nTOO = V < "1.6"\n'
    flags = frozenset(name.decode() for name in FLAGS.find(data))
    assert flags == {"NEW=1", "TOO=0"}
    project = Project(collected=((FLAGS.name, flags),))
    text = "from ours import NEW\n\n\ndef f(x):\n    if not NEW:\n        x.cuda(1)\n"
    assert gone(text, project) == ["x.cuda(1)"]
    assert gone(text.replace("from ours import NEW", "NEW = object()"), project) == []


def test_the_oldest_releases_are_those_that_the_package_asks_for() -> None:
    root = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
    asked = tomli.loads((root / "pyproject.toml").read_text())["project"]
    named = [asked["optional-dependencies"]["torch"][0], asked["requires-python"]]
    numbers = [tuple(map(int, re.findall(r"\d+", each))) for each in named]
    assert numbers == [TORCH, PYTHON]
