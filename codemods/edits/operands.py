"""Operands of ``and``: which of them never holds on Gaudi, and how one is left out."""

from __future__ import annotations

import ast
from typing import Any

from hpushim.engine.python.changes import Replace
from hpushim.engine.python.module import Module

#: False on Gaudi, whatever accelerator there is.
CUDNN = "torch.backends.cudnn.is_available"


def checks_cudnn(module: Module, test: ast.AST | None) -> bool:
    """Is a check for cuDNN among the operands?"""
    operands = test.values if isinstance(test, ast.BoolOp) else []
    return any(isinstance(o, ast.Call) and module.qualified(o.func) == CUDNN for o in operands)


def leave_out(test: ast.BoolOp, operand: ast.expr) -> Replace:
    """``a and b`` as ``a``; what else is rewritten in it stays so."""
    place, count = test.values.index(operand), len(test.values)
    return Replace(test, lambda there: _without(there, place, count))


def _without(there: Any, place: int, count: int) -> Any:
    """The operation, which is nested to the left, without the operand of that place."""
    if count > 2 and place < count - 1:
        return there.with_changes(left=_without(there.left, place, count - 1))
    kept = there.left if place == count - 1 else there.right
    return kept.with_changes(lpar=[*there.lpar, *kept.lpar], rpar=[*kept.rpar, *there.rpar])
