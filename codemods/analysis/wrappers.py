"""Methods around a step: ``def backward(self, loss)``, an optimizer's ``def step(self)``.

Who calls such a method writes a step as well, and one of the two places is to be marked: the outer one, which is called
with other steps around it. A method with any other name (``optimizer_step``, ``update``) is marked inside.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .names import word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: What wrappers of optimizers call the method that steps, or steps and does something else besides.
STEPS = re.compile(r"step|step_and_\w+|\w+_and_step|(first|second|ascent|descent)_step")
#: How classes are called that stand for an optimizer, or for the scaler that steps one.
_LIKE = re.compile(r"[Oo]ptim|Opt($|[A-Z_])|Scaler($|[A-Z_])")
_MORE_THAN_ONE = re.compile(r"trainer|agent|learner|runner|env|callback|hook", re.I)


def is_wrapper(module: Module, function: ast.AST) -> bool:
    """Is ``function`` a method whose callers write a step themselves?"""
    owner = module.parent(function)
    if not isinstance(function, ast.FunctionDef) or not isinstance(owner, ast.ClassDef):
        return False
    if function.name == "backward":
        return _is_handed(function)
    return STEPS.fullmatch(function.name) is not None and _is_like_optimizer(module, owner)


def _is_handed(function: ast.FunctionDef) -> bool:
    """Is the method given what it runs backward: ``def backward(self, loss): loss.backward()``?"""
    args = function.args
    given = {arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)} - {"self", "cls"}
    return bool(given) or args.vararg is not None


def _is_like_optimizer(module: Module, owner: ast.ClassDef) -> bool:
    names = [owner.name, *(module.source(base).rpartition(".")[2] for base in owner.bases)]
    if any(_LIKE.search(name) for name in names):
        return True
    return not _MORE_THAN_ONE.search(owner.name) and _defines(owner, "zero_grad") is not None


def _defines(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next(
        (part for part in owner.body if isinstance(part, ast.FunctionDef) and part.name == name),
        None,
    )


def own_method(module: Module, func: ast.Attribute) -> ast.FunctionDef | None:
    """The method of this file that ``self.method`` or ``thing.method`` means, as far as one can see."""
    base = func.value
    if isinstance(base, ast.Name) and base.id == "self":
        for above in module.ancestors(func):
            if isinstance(above, ast.ClassDef):
                return _defines(above, func.attr)
        return None
    stored = module.index.stored(base.attr) if isinstance(base, ast.Attribute) else []
    for value in stored or module.values(base):
        called = word(value.func) if isinstance(value, ast.Call) else ""
        for owner in module.index.definitions(called) if called else ():
            if isinstance(owner, ast.ClassDef):
                return _defines(owner, func.attr)
    return None
