"""Parameters whose default is a device: ``def f(device="cuda")``, in the agnostic style."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.python.changes import Change, Insert, Replace

from ..edits import neutral
from .kinds import base_words
from .names import word
from .project_facts import CLASSES

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


def resolved(module: Module, node: ast.expr) -> tuple[Change, ...] | None:
    """``def f(device="cuda")``: None, and the device in its place, which is looked up when the function is called."""
    if module.constant(node) not in ("cuda", "cuda:0"):
        return None
    made = neutral.whole(module, node)
    default = made or node
    first = _body(module, default)
    if first is None:
        return None
    function = module.parent(first)
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    if _is_handed_on(module, function, _parameter(function.args, default)):
        return (Replace(default, "None"),)
    given = neutral.device(module, first) if made else neutral.kind(module, first)
    if neutral.current(module, first) == neutral.NONE:
        return None
    return given_later(module, default, given)


def given_later(
    module: Module, default: ast.expr, given: str, *, last: bool = False
) -> tuple[Change, ...] | None:
    """``def f(x=default)``: None, and ``given`` in its place when the function is called.

    Where the function may give it another value further down, not if it is to be the ``last`` one.
    """
    first = _body(module, default)
    if first is None or given == neutral.NONE:
        return None
    name = _parameter(module.parent(first).args, default)  # type: ignore[union-attr]
    if last and len(module.scope(first).bindings.get(name, ())) > 1:
        return None
    code = f"if {name} is None:\n    {name} = {given}"
    return Replace(default, "None"), Insert(first, code, after=False, above_comments=True)


def _body(module: Module, default: ast.AST) -> ast.stmt | None:
    """The first statement of the function that has the default; None where nothing can be written in front of it."""
    taken = module.parent(default)
    function = module.parent(taken) if isinstance(taken, ast.arguments) else None
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body or body[0].lineno == function.lineno or _is_declared(module, function):
        return None
    return body[0]


def _is_declared(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Is something else made of the function, by a decorator, or is it a body that nobody runs?"""
    plain = ("staticmethod", "classmethod", "no_grad", "inference_mode", "override")
    made = [each.func if isinstance(each, ast.Call) else each for each in function.decorator_list]
    # Those of click hand over what they declare and nothing else.
    names = [word(each) for each in made if not _is_of_click(module, each)]
    body = module.source(function.body[-1])
    return not set(names) <= set(plain) or body in ("...", "pass")


def _is_of_click(module: Module, decorator: ast.expr) -> bool:
    """``click.option``, or ``main.command`` of a group that click made."""
    of_group = isinstance(decorator, ast.Attribute) and decorator.attr == "command"
    return (module.qualified(decorator) or "").startswith("click.") or (
        of_group and module.holds("click")
    )


def _is_handed_on(module: Module, function: ast.AST, name: str) -> bool:
    """Does a method of a class of the project give the parameter to that of its base, and do nothing else with it?"""
    owner = module.parent(function)
    if not isinstance(owner, ast.ClassDef):
        return False
    known = {said.partition(":")[0] for said in module.project.names(CLASSES.name)}
    known |= {each.name for each in module.index.statements(ast.ClassDef)}
    if not base_words(module, owner.name) & known:
        return False
    uses = [use for use in module.index.names(name) if function in module.ancestors(use)]
    for use in uses:
        call = module.parent(use)
        if isinstance(call, ast.keyword):
            call = module.parent(call)
        func = call.func if isinstance(call, ast.Call) else None
        base = func.value if isinstance(func, ast.Attribute) else None
        if not isinstance(base, ast.Call) or word(base.func) != "super":
            return False
        if getattr(func, "attr", "") != getattr(function, "name", ""):
            return False
    return bool(uses)


def _parameter(taken: ast.arguments, default: ast.AST) -> str:
    by_place = [*taken.posonlyargs, *taken.args]
    pairs = [
        *zip(reversed(by_place), reversed(taken.defaults), strict=False),
        *zip(taken.kwonlyargs, taken.kw_defaults, strict=True),
    ]
    return next(each.arg for each, value in pairs if value is default)
