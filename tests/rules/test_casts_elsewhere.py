"""A comparison with float16 knows bfloat16 as well once ``--unsafe`` makes that of the casts of the project."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Target

CASTS = [
    "net = net.cuda().half()\n",
    "net = net.to(torch.float16)\n",
    "net = net.to('cuda', dtype=torch.half)\n",
    "weight = torch.zeros(2, dtype=torch.float16)\n",
    "dtype = torch.float16 if fp16 else torch.float32\n",
]
NO_CASTS = [
    "net = net.cuda()\n",
    "x = x.half().float()\n",
    "with torch.autocast('cuda', dtype=torch.float16):\n    y = net(x)\n",
    "limit = torch.finfo(torch.float16).max\n",
]
#: What asks for the dtype, and what it becomes.
QUESTIONS = {
    "{} == torch.half": "{} in (torch.half, torch.bfloat16)",
    "torch.float16 == {}": "{} in (torch.float16, torch.bfloat16)",
    "{} is torch.float16": "{} in (torch.float16, torch.bfloat16)",
    "{} != torch.half": "{} not in (torch.half, torch.bfloat16)",
    "{} in (torch.float16, torch.float32)": "{} in (torch.float16, torch.float32, torch.bfloat16)",
    "{} not in [torch.half]": "{} not in [torch.half, torch.bfloat16]",
}
ASKED = ["params[0].dtype", "p.dtype", "self.weight.data.dtype", "dtype", "x.grad.dtype"]
PLACES = [
    "if {}:\n    master = 1\n",
    "same = {}\n",
    "def f(self, p, x, params, dtype):\n    return 1 if {} else 2\n",
    "chosen = [p for p in params if {} and p.requires_grad]\n",
]
KNOW_BOTH = [
    "if x.dtype == torch.float16 or x.dtype == torch.bfloat16:\n    y = 1\n",
    "if x.dtype in (torch.float16, torch.bfloat16):\n    y = 1\n",
    "if x.dtype == torch.float16:\n    y = 1\nelif x.dtype == torch.bfloat16:\n    y = 2\n",
    "y = {torch.float16: 1, torch.bfloat16: 2}[x.dtype]\n",
]


def found(tmp_path: Path, cast: str, asked: str) -> list[tuple[str, str, str]]:
    """What is reported of the file that asks."""
    (tmp_path / "model.py").write_text(f"import torch\ndevice = 'cuda'\n{cast}")
    (tmp_path / "optim.py").write_text(f"import torch\n{asked}")
    (one,) = [f for f in analyse([tmp_path], Target(), jobs=1).files if f.path == "optim.py"]
    return [(f.code, f.severity, f.safety) for f in one.findings]


@pytest.mark.parametrize(("cast", "question", "asked", "place"), crossed(CASTS, QUESTIONS, ASKED, PLACES, rounds=2))  # fmt: skip
def test_it_is_reported_beside_a_cast_in_another_file(
    tmp_path: Path, cast: str, question: str, asked: str, place: str
) -> None:
    text = place.format(question.format(asked))
    assert ("HPU209", "warning", "unsafe") in found(tmp_path, cast, text)


@pytest.mark.parametrize("cast", NO_CASTS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_it_is_not_without_a_cast(tmp_path: Path, question: str, cast: str) -> None:
    assert not found(tmp_path, cast, PLACES[0].format(question.format("p.dtype")))


@pytest.mark.parametrize("text", KNOW_BOTH)
def test_what_knows_both_is_not_reported(tmp_path: Path, text: str) -> None:
    assert not found(tmp_path, CASTS[0], text)


@pytest.mark.parametrize(("question", "asked", "place"), crossed(QUESTIONS, ASKED, PLACES, rounds=2))  # fmt: skip
def test_unsafe_adds_bfloat16(question: str, asked: str, place: str) -> None:
    # The call is another class's as far as this file shows, and stays.
    text = f"import torch\n{place.format(question.format(asked))}def cast(x):\n    x.half()\n"
    context = Context(Target(), load(), unsafe=True)
    after = settle(text, "python", "optim.py", context).text
    assert place.format(QUESTIONS[question].format(asked)) in after
    assert settle(after, "python", "optim.py", context).text == after
