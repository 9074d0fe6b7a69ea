"""Cells of IPython compare devices as CUDA's code does, once hpushim is there, and no longer when it is gone."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import warm

from hpushim.shim.run import cells

pytest.importorskip("IPython", reason="cells are IPython's")
pytest.importorskip("torch", reason="cells compare torch's devices")

SESSION = """
import IPython
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in {cells!r}:
    shell.run_cell(cell, store_history=True).raise_error()
"""
CELLS = [
    "{start}",
    "import torch\nx = torch.ones(1).cuda()",
    'a = x.device.type == "cuda"\n"cuda" == x.device.type',
    "def f(x):\n    'about f'\n    match x.device.type:\n        case 'cuda':\n            return True\nprint(a, Out[3], f(x))",
    "exec('b = x.device.type == \"cuda\"')\nprint(b)",
    "import hpushim\nhpushim.deactivate()",
    'print("hpu" == "cuda", get_ipython().ast_transformers)',
]


@pytest.mark.parametrize("start", ["import hpushim", "import torch"])
def test_cells(tmp_path: Path, start: str) -> None:
    cells = [cell.replace("{start}", start) for cell in CELLS]
    env = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    done = warm.run(
        [sys.executable, "-c", SESSION.format(cells=cells)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**env, "HPUSHIM": "emulate", "IPYTHONDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line and not line.startswith("Out")]
    assert said == ["True True True", "True", "False []"]
    assert "Out[3]: True" in done.stdout


def test_a_shell_that_is_half_imported_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    assert cells.install() is None


def test_a_cell_that_is_nested_too_deep_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(ast_transformers=[])
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    undo = cells.install()
    (change,) = shell.ast_transformers
    tree = ast.parse("x.device.type == 'cuda' == " + " + ".join(["y"] * 2500))
    assert change.visit(tree) is tree
    assert undo is not None and undo() and not shell.ast_transformers
