"""Which models optimizers get, and where those come from inside a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.pycode.places import At, Cell, Part
from hpushim.pycode.values import Values

from ..analysis.names import word
from ..analysis.words import calls_like
from .tensors import proven, used_as_torch
from .training import is_optimizer

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_OPTIMIZERS = re.compile(r"\w*optim\w*", re.I)
#: `optimize(x)`, `optimize_for_mobile(x)`: what is done to the argument, which is no model that an optimizer gets.
_VERBS = re.compile(r"_?optimi[sz]ed?(_\w+)?")


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
    """Do the parameters go into an optimizer, by whatever way, or are their gradients clipped?"""
    values = module.view(Values)
    inner = [
        At(call),
        At(call, (Part.ITEM,)),
        At(call, (Part.ITEM, 1)),
    ]  # all of them, one, and one behind its name
    around = [above for above in _expressions(module, call) if not _takes(module, above)]
    starts = [*inner, *map(At, around)]
    reached = [
        edge.at.node for start in starts for edge in values.reach(start, values.uses) if edge.same
    ]
    return any(_is_handed(module, node) for node in (call, *around, *reached))


def _expressions(module: Module, node: ast.expr) -> Iterator[ast.expr]:
    """The expressions around: lists, tables, ``list(…)``; to the function that another call hands them to."""
    for above in module.ancestors(node):
        if isinstance(above, ast.expr) and not isinstance(above, ast.Lambda):
            yield above
        elif not isinstance(above, (ast.keyword, ast.comprehension)):
            return


def _takes(module: Module, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and is_optimizer(module, node)


def _is_handed(module: Module, node: ast.AST | Cell) -> bool:
    """Is it an argument of an optimizer, or of what clips gradients?"""
    above = module.parent(node) if isinstance(node, ast.expr) else None
    call = module.parent(above) if isinstance(above, (ast.keyword, ast.Starred)) else above
    if not isinstance(call, ast.Call) or call.func is node:
        return False
    return word(call.func).startswith("clip_grad_") or is_optimizer(module, call)


def origin(module: Module, node: ast.expr) -> ast.expr:
    """The name or attribute that ``node`` is another name for: what ``self`` holds, what the one caller hands on."""
    values = module.view(Values)
    seen: set[At] = set()
    while isinstance(node, ast.Name) and (cell := values.variable(node)) is not None:
        found = _single(values, At(cell), seen)
        if found is None:
            break
        node = found
    return node


def _single(values: Values, at: At, seen: set[At]) -> ast.expr | None:
    """The attribute, or the argument, that is the one source of a variable."""
    while at not in seen:
        seen.add(at)
        edges = [edge for edge in values.sources(at) if edge.how != "default"]
        if len(edges) != 1:
            return None
        ((at, how),) = edges
        node = at.node
        if isinstance(node, ast.expr) and not at.way and is_plain(node):
            return node if how == "argument" or isinstance(node, ast.Attribute) else None
        if isinstance(node, ast.expr) and not at.way:
            return None
    return None
