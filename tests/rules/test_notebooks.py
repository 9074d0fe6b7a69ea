"""Lines that rules take out of notebooks leave no empty string in the cell's list."""

from __future__ import annotations

import json

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target


def _notebook(source: list[str]) -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
    first = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import torch\n"]}
    whole = {"cells": [first, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1) + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["x = 1\n", "torch.backends.cudnn.benchmark = True"], ["x = 1"]),
        (["x = 1\n", "torch.cuda.empty_cache()\n", "torch.cuda.empty_cache()"], ["x = 1"]),
        (["x = 1\n", "torch.cuda.empty_cache()\n"], ["x = 1\n"]),
        (["torch.cuda.empty_cache()\n", "x = 1"], ["x = 1"]),
        (["x = 1\n", ""], ["x = 1\n", ""]),
    ],
)
def test_a_deleted_line_leaves_no_empty_string(before: list[str], after: list[str]) -> None:
    context = Context(Target(), load())
    settled = settle(_notebook(before), "notebook", "a.ipynb", context).text
    assert settled == _notebook(after)
    assert settle(settled, "notebook", "a.ipynb", context).text == settled
