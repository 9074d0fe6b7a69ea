"""What is told of a file by its words alone, before it is parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.assess import interesting
from hpushim.engine.facts import Facts
from hpushim.engine.files.discover import File
from hpushim.pycode.words import Words


@pytest.mark.parametrize(
    "text",
    [
        "torch.load(path)",
        "torch. load(path)",
        "torch.\\\n    load(path)",
        "from torch import load",
        "from torch import save, load",
        "from torch import (\n    save,  # and (more)\n    load,\n)",
        "from torch import save, \\\n    load",
        "import torch.load",
        '"source": ["from torch import load\\n"]',
    ],
)
def test_a_word_that_code_uses(text: str) -> None:
    assert Words(text.encode()).uses(".load")


@pytest.mark.parametrize(
    "text", ["# load it with torch", "def load(): ...", "torch.loader", "load = 1", "from x import loads"]
)  # fmt: skip
def test_a_word_that_stands_there(text: str) -> None:
    assert not Words(text.encode()).uses(".load")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("import torch\nmodel = torch.load(path)\n", True),
        ("from torch import (\n    save,\n    load,\n)\nmodel = load(path)\n", True),
        ("import torch\n\nmodel = 1  # torch can load it\n", False),
        ("import bitsandbytes\n", True),
        ("# like bitsandbytes\nimport numpy\n", False),
    ],
)
def test_a_file_is_read_for_what_its_code_uses(text: str, read: bool) -> None:
    assert interesting(text.encode(), "python", "a.py") is read


def test_a_list_that_never_ends() -> None:
    """Where a comment can be read in several ways, all ways of all comments are tried: that comes to no end."""
    text = b"from torch import (\n" + b"name,  # of a thing\n" * 5000 + b"("
    Facts().see(File(Path("a.py"), "a.py", "python"), text)
    assert not Words(text).uses(".load")
