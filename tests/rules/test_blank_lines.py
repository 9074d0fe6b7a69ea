"""Statements that are removed leave no gap: of the blank lines above and below them those stay that are more."""

from __future__ import annotations

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

REMOVED = "{0}torch.cuda.empty_cache()\n"
FRAMES = {"module": ("import torch\n\na = 1\n", "b = 2\n", ""), "function": ("import torch\n\n\ndef f():\n    a = 1\n", "    return a\n", "    ")}  # fmt: skip


@pytest.mark.parametrize("where", FRAMES)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_of_the_blank_lines_above_and_below_the_more_stay(where: str, count: int) -> None:
    head, tail, indent = FRAMES[where]
    context = Context(Target(), load())
    for above in range(4):
        for below in range(4):
            text = head + "\n" * above + REMOVED.format(indent) * count + "\n" * below + tail
            after = settle(text, "python", "train.py", context).text
            assert after == head + "\n" * max(above, below) + tail, (above, below)
