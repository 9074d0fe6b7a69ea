"""The value that a variable has at a place, where the statements before it show that without following anything."""

from __future__ import annotations

import ast

from hpushim.pycode.source import Source
from hpushim.pycode.walk import walk


def stores(statement: ast.stmt, variable: ast.Name) -> bool:
    """Does a statement, or one in it, give the variable a value?"""
    return any(isinstance(part, ast.Name) and part.id == variable.id and not isinstance(part.ctx, ast.Load) for part in walk(statement))  # fmt: skip


def assigned(statement: ast.stmt | None, variable: ast.expr) -> ast.expr | None:
    """The value that a plain assignment gives the variable alone."""
    if not isinstance(statement, ast.Assign) or not isinstance(variable, ast.Name):
        return None
    targets = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return statement.value if targets == [variable.id] and len(statement.targets) == 1 else None


def last_store(source: Source, variable: ast.Name, through: tuple[type, ...]) -> ast.stmt | None:
    """The last statement before, in the same block or those around it, that gives the variable a value.

    ``through``: the statements around it whose blocks run at once.
    """
    below: ast.AST | None = source.statement(variable)
    while isinstance(below, ast.stmt):
        block = source.block(below)
        before = block[: block.index(below)] if below in block else []
        last = next((one for one in reversed(before) if stores(one, variable)), None)
        if last is not None:
            return last
        above = source.parent(below)
        below = above if isinstance(above, through) else None
    return None
