"""Cells of IPython, Jupyter's among them: their comparisons of devices are rewritten from the next cell on.

What a cell holds is compiled by IPython itself, which lets others change its tree before: a documented list of the shell.
"""

from __future__ import annotations

import ast
import sys
from typing import Any

from hpushim.shim.mechanisms.in_place import Undo


class _Rewriting:
    """One of the shell's ``ast_transformers``."""

    def visit(self, tree: ast.Module) -> ast.Module:
        """The cell, rewritten; as it is where it is nested too deep, or takes too many steps. The shell would drop a transformer that raises."""
        from hpushim.pycode.steps import TooManySteps
        from hpushim.shim.run import compiling

        try:
            return compiling.rewritten(tree, "<cell>")
        except (RecursionError, TooManySteps):
            return tree


def install() -> Undo | None:
    """Has cells rewritten where this process is an IPython shell; returns how to undo it."""
    shell = _shell()
    if shell is None:
        return None
    change = _Rewriting()
    shell.ast_transformers.append(change)

    def undo() -> bool:
        if change in shell.ast_transformers:
            shell.ast_transformers.remove(change)
        return True

    return undo


def _shell() -> Any:
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)  # it may be half imported
    return ask() if ask is not None else None
