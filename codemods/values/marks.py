"""Marks of lazy mode: where one can be, and where one is already."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import PurePath
from typing import TYPE_CHECKING

from hpushim.pycode.walk import walk

from ..analysis.kinds import base_words
from ..analysis.names import word
from ..analysis.words import calls_like
from .compiled import is_captured, is_compiled
from .training import LIGHTNING, is_wrapper

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

MARKS = ("mark_step", "iter_mark_step")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)
_LIGHTNING = frozenset(["LightningModule", "LightningLite", "LightningDataModule"])
_HOOKS = re.compile(r"\w*register_\w*hook")
_TESTS = re.compile(r"[Tt]est(_|[A-Z]|$)")
_ON_CPU = re.compile(r"(^|_)cpu(_|$)", re.I)


def may_follow(module: Module, statement: ast.stmt, call: ast.Call) -> bool:
    """Can a mark stand behind ``statement``, for a call in it, and does it belong there?"""
    if not isinstance(statement, _SIMPLE):
        return False
    child: ast.AST = call
    for above in module.ancestors(call):
        if isinstance(above, ast.Lambda):
            return False
        if isinstance(above, _FUNCTIONS) and not _is_plain(module, above):
            return False
        if isinstance(above, (*_FUNCTIONS, ast.ClassDef)) and _TESTS.match(
            getattr(above, "name", "")
        ):
            return False
        if isinstance(above, ast.ClassDef) and _places_its_own(module, above, child):
            return False
        child = above
    if is_captured(module, call):
        return False
    return not _TESTS.match(PurePath(module.path).name)


def _is_plain(module: Module, function: ast.AST) -> bool:
    """Not compiled, not a hook or the backward of an autograd function, not what others call as a step, not for the CPU."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if function.name in ("forward", "backward") and _in_autograd_function(module, function):
        return False
    if _ON_CPU.search(function.name) or is_wrapper(module, function):
        return False
    return not is_compiled(module, function) and function.name not in module.view(_hooked)


def _hooked(module: Module) -> frozenset[str]:
    """Names of functions that the file registers as hooks: they run inside a backward pass."""
    return frozenset(
        word(arg)
        for call in calls_like(module, _HOOKS, "register_")
        if isinstance(call.func, ast.Attribute)
        for arg in call.args
        if isinstance(arg, (ast.Name, ast.Attribute))
    )


def _in_autograd_function(module: Module, function: ast.AST) -> bool:
    owner = module.parent(function)
    return isinstance(owner, ast.ClassDef) and "Function" in base_words(module, owner.name)


def _places_its_own(module: Module, owner: ast.ClassDef, method: ast.AST) -> bool:
    """A Lightning module, whose trainer steps; or an optimizer around another one."""
    defined = {part.name for part in owner.body if isinstance(part, ast.FunctionDef)}
    bases = base_words(module, owner.name)
    if {"training_step", "configure_optimizers"} <= defined or bases & _LIGHTNING:
        return True
    if any((module.qualified(base) or "").partition(".")[0] in LIGHTNING for base in owner.bases):
        return True
    return "Optimizer" in bases and getattr(method, "name", "").endswith("step")


def is_marked(module: Module, statement: ast.stmt, sites: Collection[ast.AST]) -> bool:
    """Does a mark follow ``statement`` before anything else that is to be marked (``sites``)?"""
    while True:
        block = module.block(statement)
        place = next(i for i, other in enumerate(block) if other is statement)
        for later in block[place + 1 :]:
            if _holds_mark(later):
                return True
            if any(part in sites for part in walk(later)):
                return False
        parent = module.parent(statement)
        if not isinstance(parent, (ast.With, ast.AsyncWith, ast.If, ast.Try)):
            return False
        statement = parent


def _holds_mark(statement: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, (ast.Name, ast.Attribute))
        and word(part.func) in MARKS
        for part in walk(statement)
    )
