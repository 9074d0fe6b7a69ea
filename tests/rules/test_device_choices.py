"""A device that is chosen where it is given: every word of the choice turns, with the check that makes it."""

from __future__ import annotations

import ast

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Style, Target

CALLS = [
    "with torch.autocast({}): pass",
    "with torch.autocast({}, dtype=torch.bfloat16): pass",
    "with torch.amp.autocast(device_type={}, enabled=on): pass",
    "with torch.autocast(enabled=on, device_type={}): pass",
    "region = functools.partial(torch.autocast, {})",
    "def f(x):\n    @torch.autocast({})\n    def g(): pass",
    "s = torch.amp.GradScaler({})",
    "s = torch.amp.GradScaler(enabled=on, device={})",
    "class A:\n    def __init__(self, args):\n        self.s = torch.amp.GradScaler({}, init_scale=2.0)",
    "mesh = torch.distributed.init_device_mesh({}, (2,))",
    "on = torch.is_autocast_enabled({})",
    "d = torch.device({})",
    "x = torch.zeros(3, device={})",
    "x = x.to({})",
]
CHOICES = [
    '"cuda" if torch.cuda.is_available() else "cpu"',
    '"cpu" if not torch.cuda.is_available() else "cuda"',
    '("cuda" if use else "cpu")',
    '"cuda" if use and args.gpu else "cpu"',
    '"cuda" if torch.cuda.is_available() else "mps" if mps else "cpu"',
    '"cpu" if args.cpu else "cuda"',
    'args.device or "cuda"',
    '"cuda" if "cuda" in str(args.device) else "cpu"',
]


@pytest.mark.parametrize(
    ("style", "choice", "call"), crossed(["native", "dual"], CHOICES, CALLS, rounds=3)
)
def test_all_of_a_choice_turns(call: str, choice: str, style: Style) -> None:
    context = Context(Target(mode="eager", style=style), load())
    text = f"import functools\nimport torch\n\nuse = torch.cuda.is_available()\n{call.format(choice)}\n"
    after = settle(text, "python", "train.py", context).text
    ast.parse(after)
    assert settle(after, "python", "train.py", context).text == after
    written = after.partition("\nuse = ")[2]
    if style == "native":
        assert "cuda" not in written
    else:
        assert '"cuda"' not in written
        assert "ACCELERATOR" in written


ROUND = [
    'device = device or ("cuda" if use else "cpu")',
    'device = "cuda" if use else device',
    'device = device if device is not None else ("cuda" if use else "cpu")',
    'other = device or "cuda"\n    device = other or ("cuda" if use else "cpu")',
    'while use:\n        device = device or ("cuda" if use else "cpu")',
]


@pytest.mark.parametrize("chosen", ROUND)
def test_a_choice_that_comes_back_to_itself(chosen: str) -> None:
    text = f"import torch\n\ndef make(n, device=None, use=True):\n    {chosen}\n    return torch.zeros(n, device=device)\n"
    settled = settle(text, "python", "train.py", Context(Target(mode="eager"), load()))
    assert "cuda" not in settled.text
    assert "HPU004" not in {finding.code for finding in settled.findings}


CHOSEN = '("cuda" if torch.cuda.is_available() else "cpu")'
PIECES = [
    '{} + ":0"',
    '{} + f":{{n}}"',
    '{} + ":" + str(n)',
    '"{{}}:{{}}".format({}, n)',
    '"{{}}".format({})',
    '"%s:0" % {}',
    '"%s:%d" % ({}, n)',
    'f"{{{}}}:{{n}}"'.replace('"', "'''"),
]


@pytest.mark.parametrize(
    ("given", "piece"), crossed(["torch.device({})", "x.to({})", "name = {}"], PIECES, rounds=3)
)
def test_a_choice_that_a_device_text_begins_with(piece: str, given: str) -> None:
    text = f"import torch\n\ndef f(x, n):\n    {given.format(piece.format(CHOSEN))}\n"
    after = settle(text, "python", "train.py", Context(Target(mode="eager"), load())).text
    assert "cuda" not in after


WORDS = [
    '"model_" + {} + ".pt"',
    '{} + "-run"',
    '"logs/{{}}/x".format({})',
    '"{{}}_{{}}".format({}, n)',
    '"%s.%d" % ({}, n)',
]


@pytest.mark.parametrize("word", WORDS)
def test_a_choice_inside_another_word_stays(word: str) -> None:
    text = f"import torch\n\ndef f(n):\n    open({word.format(CHOSEN)})\n"
    after = settle(text, "python", "train.py", Context(Target(mode="eager"), load())).text
    assert '"cuda"' in after
