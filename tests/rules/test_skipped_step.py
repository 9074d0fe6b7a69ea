"""The check of the gradients in place of a scaler: not where an option may switch the scaler off, which skips nothing then."""

from __future__ import annotations

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

START = "import torch\nfrom torch.cuda.amp import GradScaler\n"
#: How a scaler is made, the option of its switch last.
MAKERS = ("GradScaler({})", "torch.cuda.amp.GradScaler({})", 'torch.amp.GradScaler("cuda", {})')
PLACES = (
    "scaler = {0}\ndef train(loss, optimizer):\n    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n",
    "def train(loss, optimizer, args):\n    scaler = {0}\n    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n",
    "class T:\n    def __init__(self, args):\n        self.scaler = {0}\n    def f(self, loss, optimizer):\n        self.scaler.scale(loss).backward()\n"
    "        self.scaler.step(optimizer)\n        self.scaler.update()\n",
    "def train(loss, optimizer, args):\n    scaler = {0} if args.cuda else None\n    loss = scaler.scale(loss) if scaler else loss\n    loss.backward()\n"
    "    if scaler:\n        scaler.step(optimizer)\n        scaler.update()\n    else:\n        optimizer.step()\n",
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    ("switch", "safety"),
    [
        ("", "unsafe"),
        ("enabled=True", "unsafe"),
        ("enabled=args.amp", "manual"),
        ('enabled=(dtype == "float16")', "manual"),
        ("enabled=not args.no_amp", "manual"),
    ],
)
def test_only_for_a_scaler_that_is_on(place: str, maker: str, switch: str, safety: str) -> None:
    context = Context(Target(mode="eager"), load())
    text = START + place.format(maker.format(switch).replace(", )", ")"))
    told = [f for f in settle(text, "python", "train.py", context).findings if f.code == "HPU215"]
    assert [f.safety for f in told] == [safety]
