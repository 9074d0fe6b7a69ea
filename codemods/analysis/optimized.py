"""Which models optimizers get, and where those come from inside a file."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .kinds import proven, used_as_torch
from .names import word
from .optimizers import is_optimizer
from .words import calls_like

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_OPTIMIZERS = re.compile(r"\w*optim\w*", re.I)
#: `optimize(x)`, `optimize_for_mobile(x)`: what is done to the argument, which is no model that an optimizer gets.
_VERBS = re.compile(r"_?optimi[sz]ed?(_\w+)?")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def optimized(module: Module) -> list[ast.expr]:
    """The names and attributes whose parameters optimizers get, or whose gradients are clipped."""
    found: dict[ast.expr, None] = {}
    for call in (*module.index.calls("parameters"), *module.index.calls("named_parameters")):
        func = call.func
        if not isinstance(func, ast.Attribute) or not is_plain(func.value):
            continue
        if _reaches_optimizer(module, call):
            found[func.value] = None
    for call in calls_like(module, _OPTIMIZERS, "optim", "Optim"):
        if _VERBS.fullmatch(word(call.func)) or not is_optimizer(module, call):
            continue
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        for node in (*owner, *call.args, *(k.value for k in call.keywords)):
            if is_plain(node) and word(node) != "self" and _is_model(module, node):
                found[node] = None
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def is_plain(node: ast.expr) -> bool:
    """``model`` or ``self.model``."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "self"
    return isinstance(node, ast.Name) and node.id != "self"


def _is_model(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Name) and any(b.kind == "import" for b in module.bindings(node)):
        return False
    known = proven(module, node) or used_as_torch(module, node)
    return known and "optim" not in word(node).lower()


def _reaches_optimizer(module: Module, call: ast.Call) -> bool:
    """Do the parameters go into an optimizer, directly or through one name, or are their gradients clipped?"""
    for above in module.ancestors(call):
        if isinstance(above, ast.Call) and (
            is_optimizer(module, above) or word(above.func).startswith("clip_grad_")
        ):
            return True
        if isinstance(above, (*_FUNCTIONS, ast.ClassDef)):
            return False
        if isinstance(above, ast.Assign):
            names = [t for t in above.targets if isinstance(t, ast.Name)]
            return any(_goes_to_optimizer(module, name) for name in names)
    return False


def _goes_to_optimizer(module: Module, name: ast.Name) -> bool:
    ours = module.bindings(name)
    return any(
        isinstance(above, ast.Call) and is_optimizer(module, above)
        for use in module.index.names(name.id)
        if isinstance(use.ctx, ast.Load) and module.bindings(use) is ours
        for above in module.ancestors(use)
    )


def origin(module: Module, node: ast.expr) -> ast.expr:
    """The name or attribute that ``node`` is another name for: what ``self`` holds, what the one caller hands on."""
    return _of_caller(module, _of_self(module, node))


def _of_self(module: Module, node: ast.expr) -> ast.expr:
    """``self.model`` for a name that is given it, alone or beside others: ``model, config = self.model, self.config``."""
    bound = module.bindings(node) if isinstance(node, ast.Name) else []
    if len(bound) != 1 or bound[0].kind != "assign":
        return node
    statement = module.statement(bound[0].node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return node
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    for given, source in pairs:
        if (
            isinstance(given, ast.Name)
            and given.id == word(node)
            and isinstance(source, ast.Attribute)
        ):
            return source if is_plain(source) else node
    return node


def _of_caller(module: Module, node: ast.expr) -> ast.expr:
    """What the one call in the file hands on, where ``node`` is a parameter of a function."""
    if not isinstance(node, ast.Name):
        return node
    bound = module.bindings(node)
    function = module.function(node)
    if function is None or len(bound) != 1 or bound[0].kind != "param":
        return node
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    calls = [c for c in module.index.calls(function.name) if isinstance(c.func, ast.Name)]
    if len(calls) != 1 or node.id not in names:
        return node
    given = _argument(calls[0], node.id, names.index(node.id))
    return given if given is not None and is_plain(given) else node


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """The value that a call gives a parameter, by keyword or by position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    seen = position < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args)
    return call.args[position] if seen else None
