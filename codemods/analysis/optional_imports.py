"""Imports without which the code goes on: what catches that a package is not there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.python.walk import walk

from .names import word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_CAUGHT = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
_NOTES = (ast.Assign, ast.AnnAssign)
_REPLACES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def optional(module: Module, node: ast.AST) -> bool:
    """Does the code catch that the package is not there, and note it, or take another: ``except ImportError: flash = None``?"""
    below = node
    for above in module.ancestors(node):
        if isinstance(above, ast.Try) and below in above.body:
            noted = any(isinstance(each, _NOTES) for each in (*above.body, *above.orelse))
            return any(_goes_on(handler, noted=noted) for handler in above.handlers)
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return False
        below = above
    return False


def _goes_on(handler: ast.ExceptHandler, *, noted: bool) -> bool:
    """Does a handler catch a failed import, raise nothing, and leave a word of it (``noted``: the other branch does)?"""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    inner = [*walk(handler)]
    return (
        any(each is None or word(each) in _CAUGHT for each in caught)
        and not any(isinstance(each, ast.Raise) for each in inner)
        and (noted or any(isinstance(each, (*_NOTES, *_REPLACES)) for each in inner))
    )


def guarded(module: Module, node: ast.AST) -> bool:
    """Does the code go on without the package: under ``try``, under ``if``, inside a function?"""
    return any(
        isinstance(above, (ast.Try, ast.If, ast.FunctionDef, ast.AsyncFunctionDef))
        for above in module.ancestors(node)
    )
