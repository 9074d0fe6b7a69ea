"""Numbers of cards, and devices that are kept under such a name."""

from __future__ import annotations

import ast

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

NAMES = ["rank", "local_rank", "gpu", "gpu_id", "device_id", "cuda_id"]
#: Where a name comes from, around the statement that uses it.
NUMBERS = [
    "def f(x, {0}):\n    {1}\n",
    "def f(x, {0}: int):\n    {1}\n",
    "def f(x, {0}=0):\n    {1}\nf(x, 3)\nf(x, {0}=2)\n",
    "{0} = int(os.environ['LOCAL_RANK'])\n{1}\n",
    "def f({0}, x):\n    {1}\nmp.spawn(f, nprocs=8)\n",
    "for {0} in range(8):\n    {1}\n",
]
DEVICES = [
    "{0} = torch.device('cpu')\n{1}\n",
    "{0} = 'cpu'\n{1}\n",
    "{0} = 0 if cards else 'cpu'\n{1}\n",
    "def f(x, {0}='cpu'):\n    {1}\n",
    "def f(x, {0}: torch.device):\n    {1}\n",
    "def f(x, {0}: 'torch.device'):\n    {1}\n",
    "def f(x, {0}: str | None = None):\n    {1}\n",
    "def f(x, {0}):\n    {1}\nf(x, 'cpu')\n",
    "def f(x, {0}):\n    {1}\nf(x, {0}=torch.device('cpu'))\n",
    "def f(x, {0}=None):\n    if {0} is None:\n        {0} = 'cpu'\n    {1}\n",
    "class A:\n    def f(self, x, {0}):\n        {1}\na.f(x, 'cpu')\n",
]
USES = ["x = x.to({0})", "x = x.to({0}, non_blocking=True)", "x = torch.zeros(3, device={0})"]
HEAD = "import os\nimport torch\n\n# cuda\n"


def migrated(text: str) -> str:
    context = Context(Target(mode="eager"), load())
    after = settle(text, "python", "train.py", context).text
    ast.parse(after)
    assert settle(after, "python", "train.py", context).text == after
    return after


@pytest.mark.parametrize(("use", "where"), crossed(USES, NUMBERS, rounds=2))
def test_a_number_becomes_the_device(where: str, use: str) -> None:
    for name in NAMES:
        after = migrated(HEAD + where.format(name, use.format(name)))
        assert "hpu" in after
        assert use.format(name) not in after


@pytest.mark.parametrize(("use", "where"), crossed(USES, DEVICES, rounds=2))
def test_a_device_stays_under_any_name(where: str, use: str) -> None:
    for name in NAMES:
        text = HEAD + where.format(name, use.format(name))
        assert migrated(text) == text


@pytest.mark.parametrize("use", [use for use in USES if "zeros" not in use])
@pytest.mark.parametrize(
    ("option", "turns"),
    [
        ("type=int", True),
        ("default=0, type=int", True),
        ("default='cpu'", False),
        ("type=str", False),
        ("default=None, type=str", False),
    ],
)
def test_options(option: str, turns: bool, use: str) -> None:
    used = use.format("args.gpu")
    text = f"{HEAD}parser.add_argument('--gpu', {option})\nargs = parser.parse_args()\n{used}\n"
    assert (used not in migrated(text)) is turns
