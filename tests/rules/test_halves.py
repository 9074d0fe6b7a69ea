"""What asks about the dtype of an autocast region after that has become bfloat16."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

#: Where the dtype is kept, and under which name.
HOLDERS = {
    "dtype": "dtype = torch.float16",
    "kind": "kind = torch.half if half else torch.float32",
    "cfg.dtype": "class Config: pass\ncfg = Config()\ncfg.dtype = torch.float16",
}
QUESTIONS = [
    "{} == torch.float16",
    "torch.half == {}",
    "{} is torch.float16",
    "not ({} != torch.half)",
    "{} in (torch.float16, torch.float32)",
    "{} in [torch.float32, torch.half]",
    "{{torch.float16: True, torch.float32: False}}[{}]",
    "{{torch.half: True}}.get({}, False)",
    "{} in (torch.float16, torch.bfloat16)",
    "{{torch.float16: True, torch.bfloat16: True}}[{}]",
]


def migrated(text: str) -> str:
    after = settle(text, "python", "train.py", Context(Target(mode="eager"), load())).text
    ast.parse(after)
    assert settle(after, "python", "train.py", Context(Target(mode="eager"), load())).text == after
    return after


@pytest.mark.parametrize(("question", "holder"), crossed(QUESTIONS, HOLDERS, rounds=3))
def test_the_answer_is_the_same_before_and_after(holder: str, question: str) -> None:
    text = (
        f"import torch\n\nhalf = True\n{HOLDERS[holder]}\nanswer = {question.format(holder)}\n"
        f'region = torch.autocast("cuda", dtype={holder}, enabled=False)\n'
    )
    before, after = (
        _run(text.replace('"cuda"', '"cpu"')),
        _run(migrated(text).replace("hpu", "cpu")),
    )
    assert (before["answer"], after["answer"]) == (True, True)
    assert "torch.bfloat16" in migrated(text)


@pytest.mark.parametrize("question", QUESTIONS[:5])
def test_a_tensor_s_dtype_is_another(question: str) -> None:
    asked = question.format("x.dtype")
    text = f'import torch\n\nx.dtype = cfg.dtype = torch.float16\nanswer = {asked}\nregion = torch.autocast("cuda", dtype=cfg.dtype)\n'
    assert f"answer = {asked}\n" in migrated(text)


def _run(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"torch": torch}
    exec(text, names)
    return names


@pytest.mark.parametrize("region", ['torch.autocast("cpu", dtype={})', 'torch.amp.autocast(device_type="cpu", dtype={})', "torch.cpu.amp.autocast(dtype={})"])  # fmt: skip
@pytest.mark.parametrize("holder", HOLDERS)
def test_the_dtype_of_a_region_of_the_cpu_stays(region: str, holder: str) -> None:
    text = f"import torch\n\nhalf = True\n{HOLDERS[holder]}\nwith {region.format(holder)}:\n    answer = {holder} == torch.float16\n"
    assert migrated(text) == text


@pytest.mark.parametrize("use", ["region = torch.autocast", "class Region(torch.autocast):\n    pass", "make(torch.cuda.amp.autocast, 1)"])  # fmt: skip
def test_a_region_that_is_not_made_here_gives_no_dtype(use: str) -> None:
    settled = settle(f"import torch\n\ndtype = torch.float16\n{use}\nx.cuda()\n", "python", "train.py", Context(Target(mode="eager"), load()))  # fmt: skip
    assert "HPU004" not in {finding.code for finding in settled.findings}
    assert "dtype = torch.float16\n" in settled.text
