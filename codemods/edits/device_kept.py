"""A function that needs the device more than once keeps it in a variable: ``device = default_device()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.module import Module

from . import neutral
from .at_hand import OR_FAIL

#: The name of what a function keeps.
KEPT = "device"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # fmt: skip


def hoisted(module: Module, name: str) -> Iterator[tuple[list[ast.Call], ast.stmt]]:
    """The calls of one function that one name can take the place of, and the statement in front of which it gets its value."""
    for owner, calls in _owners(module, name).items():
        first = _first(module, owner, calls)
        if name in OR_FAIL and any(_may_not_run(module, call, first, calls) for call in calls):
            continue
        if first is not None and _is_gain(module, calls, first) and _is_free(module, owner):
            yield calls, first


def only_assigned(module: Module, name: str) -> ast.expr | None:
    """The only call, or its type, where it is what a variable gets: the choice itself can take its place."""
    uses = module.index.names(name)
    call = module.parent(uses[0]) if len(uses) == 1 else None
    if not isinstance(call, ast.Call):
        return None
    above = module.parent(call)
    typed = isinstance(above, ast.Attribute) and above.attr == "type"
    whole: ast.expr = above if typed and isinstance(above, ast.expr) else call
    given = module.parent(whole)
    return whole if isinstance(given, ast.Assign) and given.value is whole else None


def only_owner(module: Module, name: str) -> tuple[list[ast.Call], ast.stmt] | None:
    """The same where one function of the file has all calls, so that no function of its own has to give the device."""
    owners = _owners(module, name)
    if len(owners) != 1 or sum(map(len, owners.values())) != len(module.index.names(name)):
        return None
    ((owner, calls),) = owners.items()
    first = _first(module, owner, calls)
    if name in OR_FAIL and any(_may_not_run(module, call, first, calls) for call in calls):
        return None
    return (calls, first) if first is not None and _is_free(module, owner) else None


def _owners(module: Module, name: str) -> dict[ast.AST, list[ast.Call]]:
    """The calls, by the function in whose body they run."""
    found: dict[ast.AST, list[ast.Call]] = {}
    for use in module.index.names(name):
        call = module.parent(use)
        if not isinstance(call, ast.Call) or call.func is not use or call.args or call.keywords:
            continue
        if all(neutral.is_default(bound) for bound in module.bindings(use)):
            found.setdefault(_owner(module, call), []).append(call)
    return found


def _owner(module: Module, call: ast.Call) -> ast.AST:
    """The outermost function in whose body the call runs, or the module."""
    owner: ast.AST = module.tree
    for child, above in module.upwards(call):
        if isinstance(above, _FUNCTIONS) and child in above.body:
            owner = above
    return owner


def _first(module: Module, owner: ast.AST, calls: list[ast.Call]) -> ast.stmt | None:
    """The statement in front of which the variable gets its value; None where there is no place for that."""
    block: list[ast.stmt] = owner.body  # type: ignore[attr-defined]
    while True:
        around = [[s for s in block if s in module.ancestors(call)] for call in calls]
        if not all(around):
            return None
        first = min((found[0] for found in around), key=lambda s: (s.lineno, s.col_offset))
        inner = [
            each
            for field in ("body", "orelse")
            if isinstance(first, ast.If)
            for each in [getattr(first, field)]
            if all(any(s in module.ancestors(call) for s in each) for call in calls)
        ]
        if not inner:
            break
        block = inner[0]
    while module.source(first).startswith("elif"):
        first = module.statement(module.parent(first) or first)
    above = module.parent(first)
    shares = first.lineno == getattr(owner if above is owner else above, "lineno", 0)
    return None if shares else first


def _may_not_run(
    module: Module, call: ast.Call, first: ast.stmt | None, calls: list[ast.Call]
) -> bool:
    """Is a call behind a condition inside the statement in front of which the device would be kept? There it would end the program for nothing.

    Unless the other branch has one of the calls as well.
    """
    for child, above in module.upwards(call):
        if child is first:
            return False
        if isinstance(above, ast.If) and child is not above.test:
            other = above.orelse if child in above.body else above.body
            if not any(s in module.ancestors(each) for each in calls for s in other):
                return True
        if isinstance(above, ast.IfExp) and child is not above.test:
            return True
        if isinstance(above, ast.BoolOp) and child is not above.values[0]:
            return True
    return False


def _is_gain(module: Module, calls: list[ast.Call], first: ast.stmt) -> bool:
    if isinstance(first, (ast.Assign, ast.AnnAssign)) and first.value in calls:
        return False  # it is kept there
    return len(calls) > 1 or any(isinstance(a, _LOOPS) for a in _within(module, calls[0], first))


def _within(module: Module, call: ast.Call, first: ast.stmt) -> Iterator[ast.AST]:
    for above in module.ancestors(call):
        yield above
        if above is first:
            return


def _is_free(module: Module, owner: ast.AST) -> bool:
    """Does ``device`` mean nothing yet, where the function would give it a value?"""
    names = [*module.index.names(KEPT)]
    bound = KEPT in module.global_scope.bindings
    if owner is module.tree:
        return not names and not bound and not neutral.is_open(module)
    scope = module.scope(owner.body[0])  # type: ignore[attr-defined]
    return KEPT not in scope.bindings and not any(owner in module.ancestors(use) for use in names)
