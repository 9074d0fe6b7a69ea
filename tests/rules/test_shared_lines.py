"""What a rewrite needs is there before the code that needs it, also where that shares the line of the import."""

from __future__ import annotations

import ast

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

HEADS = ["", "#!/usr/bin/env python\n", '"""A text."""; ', "from __future__ import annotations; ", "import os; ", "import os\n", "x = 1; "]  # fmt: skip
IMPORTS = ["import torch; ", "import torch;", "import torch, os; ", "import torch \\\n  , os ; ", "import torch; import os; ", "import torch ; \\\n "]  # fmt: skip
USES = [
    "y = x.to('cuda')\n",
    "y = x.to('cuda'); x.cuda(); z = 1\n",
    "y = [x.cuda(), f'''{\n1}''']\n",
    "y = f'''{\n1}'''; x.cuda()\n",
    "f = lambda: x.cuda(); f()\n",
    "f = lambda: x.cuda()\nf()\n",
    "y = 1\nfor y in x:\n    def f(): return x.cuda()\n    f()\n",
]
BELOW = ["", "def g():\n    return x.cuda()\n", "if x:\n  x.cuda()\n  def f():\n    x.cuda(); x.cuda()\n"]  # fmt: skip
#: What the styles write, wherever one of them is needed.
OWN = ("ACCELERATOR", "accelerator_device", "accelerator_or_cpu", "htcore")


def _given(statement: ast.stmt) -> set[str]:
    found = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
    found |= {n.name for n in ast.walk(statement) if isinstance(n, ast.FunctionDef)}
    return found | {(n.asname or n.name).partition(".")[0] for n in ast.walk(statement) if isinstance(n, ast.alias)}  # fmt: skip


def _early(tree: ast.Module) -> list[str]:
    """Names of hpushim's own that are used at the top level above what gives them a value."""
    there: set[str] = set()
    found = []
    for statement in tree.body:
        waits = [n for f in ast.walk(statement) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)]  # fmt: skip
        given = _given(statement)
        found += [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in OWN and n not in waits and n.id not in there | given]  # fmt: skip
        there |= given
    return found


@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
def test_what_is_needed_is_above(style: str) -> None:
    asked = Context(Target(style=style), load())  # type: ignore[arg-type]
    for parts in crossed(HEADS, IMPORTS, USES, BELOW, rounds=3):
        text = "".join(parts)
        done = settle(text, "python", "a.py", asked)
        tree = ast.parse(done.text)
        assert "HPU004" not in {each.code for each in done.findings}, text
        assert not _early(tree), done.text
        for name in OWN:
            used = any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(tree))
            assert not used or any(name in _given(each) for each in tree.body), done.text
        assert "cuda" not in done.text or style != "native", done.text
        assert settle(done.text, "python", "a.py", asked).text == done.text, text
