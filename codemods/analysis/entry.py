"""Whether a file is a program of its own or is imported by others."""

from __future__ import annotations

import ast

from hpushim.engine.python.module import Module
from hpushim.pycode.places import TRIES
from hpushim.pycode.walk import walk

#: What reads the options of a program.
PARSES = ("parse_args", "parse_known_args")


def is_entry(module: Module) -> bool:
    """Whether the file is run: it requests ``__main__``, loops or reads its options at the top level."""
    return module.view(_is_entry)


def _is_entry(module: Module) -> bool:
    parses = any(map(module.holds, PARSES))
    for statement in module.tree.body:
        if parses and isinstance(statement, (ast.Assign, ast.Expr)) and _reads_options(statement.value):  # fmt: skip
            return True
        if _loops(statement):
            return True
        if isinstance(statement, ast.If) and any(
            isinstance(part, ast.Name) and part.id == "__name__" for part in walk(statement.test)
        ):
            return True
    return False


def _loops(statement: ast.stmt) -> bool:
    """A loop at the top level, also inside ``with``, ``if`` and ``try``."""
    if isinstance(statement, (ast.For, ast.While)):
        return True
    if isinstance(statement, (ast.With, ast.If, *TRIES)):
        return any(_loops(inner) for inner in statement.body)
    return False


def _reads_options(value: ast.expr) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in PARSES for part in walk(value))
