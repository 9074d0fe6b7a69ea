"""Where code runs once in every step of training: in the loop that holds the backward pass, in a function that is one step."""

from __future__ import annotations

import ast
import itertools
import re
from typing import TYPE_CHECKING

from hpushim.pycode.walk import walk

from .kinds import is_in_module
from .names import word
from .optimizers import is_optimizer, is_scaler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hpushim.engine.python.module import Module

_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Words of conditions that hold now and then, or in one process.
_SELDOM = re.compile(r"log|print|verbose|debug|interval|freq|every|rank|main|master|last|best|eval|val|save|first|display|report", re.I)  # fmt: skip
_FORWARD = frozenset(["forward", "__call__"])


def in_every_step(module: Module, node: ast.AST) -> bool:
    """Does ``node`` run in every step: in a loop that trains or a function that is a step, under no rare condition?"""
    regions = module.view(step_regions)
    inside = node
    for above in module.ancestors(node):
        if above in regions:
            return True
        if isinstance(above, (ast.If, ast.IfExp)) and inside is not above.test:
            if _is_rare(above.test):
                return False
        elif isinstance(above, (ast.ExceptHandler, *_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return False
        inside = above
    return False


def in_forward(module: Module, node: ast.AST) -> bool:
    """Does ``node`` stand in the forward pass of a module, under no rare condition?"""
    function = module.function(node)
    return function is not None and function.name in _FORWARD and is_in_module(module, function)


def step_regions(module: Module) -> set[ast.AST]:
    """The loop around each backward pass and each step of an optimizer, or the function where there is none.

    The two differ where gradients are summed over small batches: both loops run in every step.
    """
    found: set[ast.AST] = set()
    for call in _steps(module):
        around = (a for a in module.ancestors(call) if isinstance(a, (*_LOOPS, *_FUNCTIONS)))
        found.update(itertools.islice(around, 1))
    new = list(found)
    while new:
        above = [each for each in _callers(module, new.pop()) if each not in found]
        found.update(above)
        new += above
    return {each for each in found if not getattr(each, "name", "").startswith("test")}


def _callers(module: Module, step: ast.AST) -> Iterator[ast.AST]:
    """Where the methods of the same class call a method that is one step: the loop around the call, or the method."""
    owner = module.parent(step) if isinstance(step, _FUNCTIONS) else None
    if not isinstance(owner, ast.ClassDef) or not isinstance(step, _FUNCTIONS):
        return
    for call in module.index.calls(step.name):
        if isinstance(call.func, ast.Attribute) and word(call.func.value) == "self":
            around = [
                a
                for a in module.ancestors(call)
                if isinstance(a, (*_LOOPS, *_FUNCTIONS, ast.ClassDef))
            ]
            if owner in around and around[0] is not owner:
                yield around[0]


def _steps(module: Module) -> Iterator[ast.Call]:
    passes = [*module.index.calls("backward"), *module.index.calls("manual_backward")]
    passes = [call for call in passes if isinstance(call.func, ast.Attribute)]
    yield from passes
    for call in module.index.calls("step") if passes else ():
        if isinstance(call.func, ast.Attribute) and (
            is_optimizer(module, call.func.value) or is_scaler(module, call.func.value)
        ):
            loops = [a for a in module.ancestors(call) if isinstance(a, _LOOPS)]
            if any(set(loops[:1]) & set(module.ancestors(each)) for each in passes):
                yield call


def over_parameters(module: Module, node: ast.AST) -> bool:
    """Does ``node`` stand in a loop over parameters and their gradients, which runs in each step as well?"""
    for above in module.ancestors(node):
        if isinstance(above, (ast.For, ast.comprehension)):
            if _goes_over_parameters(above):
                return _has_gradients(module, above)
        elif isinstance(above, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
            if any(_goes_over_parameters(part) for part in above.generators):
                return _has_gradients(module, above)
        elif isinstance(above, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return False
    return False


def _goes_over_parameters(loop: ast.For | ast.comprehension) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr in ("parameters", "named_parameters")
        for part in walk(loop.iter)
    ) or (isinstance(loop.iter, ast.Name) and loop.iter.id in ("params", "parameters"))


def _has_gradients(module: Module, outer: ast.AST) -> bool:
    return any(outer in module.ancestors(grad) for grad in module.index.attributes("grad"))


def _is_rare(test: ast.expr) -> bool:
    for part in walk(test):
        if isinstance(part, (ast.Mod, ast.Call)):
            return True
        if _SELDOM.search(getattr(part, "attr", getattr(part, "id", ""))):
            return True
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
