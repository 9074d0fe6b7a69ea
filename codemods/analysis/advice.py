"""Advice for owners of NVIDIA GPUs: an ``if`` that tests how new the device is, and only says something."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .names import called

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Calls that only say what they are given.
_TELLS = re.compile(r"(?:print|log|warn|info|debug|error|critical|exception)\w*")
_PLAIN = (ast.Constant, ast.JoinedStr, ast.FormattedValue, ast.Name, ast.Attribute, ast.BinOp)
_TEST = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Tuple)  # fmt: skip


def advice(module: Module, node: ast.expr) -> ast.If | None:
    """The ``if`` without ``else`` whose test asks ``node`` (a name of torch.cuda) and flags alone, and which does nothing but tell."""
    call = called(module, node)
    statement: ast.AST | None = call
    while isinstance(statement, ast.expr):
        statement = module.parent(statement)
    if call is None or not isinstance(statement, ast.If) or statement.orelse:
        return None
    if not _within(module, statement.test, call) or not _only_asks(statement.test, call):
        return None
    return statement if all(_tells(one) for one in statement.body) else None


def _within(module: Module, test: ast.expr, call: ast.Call) -> bool:
    return any(place is test for place in (call, *module.ancestors(call)))


def _only_asks(test: ast.expr, call: ast.Call) -> bool:
    pending: list[ast.expr] = [test]
    while pending:
        node = pending.pop()
        if node is call:
            continue
        if not isinstance(node, _TEST):
            return False
        pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return True


def _tells(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return bool(_TELLS.fullmatch(name)) and all(isinstance(value, _PLAIN) for value in given)
