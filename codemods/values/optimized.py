"""Which models optimizers get, and where those come from inside a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpushim.engine.python.module import Module
from hpushim.pycode.values import At, Cell, Part, Values
from hpushim.pycode.walk import walk

from ..analysis.names import calls_like, word
from .tensors import is_model, proven, used_as_torch
from .training import is_optimizer

#: Ways on which a model goes on under another name.
_HANDED = frozenset(["argument", "item", "loop"])
#: What gives the parts of a model.
_PARTS = frozenset(["modules", "children", "named_modules", "named_children"])
_OPTIMIZERS = re.compile(r"\w*optim\w*", re.I)
#: `optimize(x)`, `optimize_for_mobile(x)`: what is done to the argument, which is no model that an optimizer gets.
_VERBS = re.compile(r"_?optimi[sz]ed?(_\w+)?")


def optimized(module: Module) -> list[ast.expr]:
    """The names and attributes whose parameters optimizers get, or whose gradients are clipped."""
    found: dict[ast.expr, None] = {}
    for call in (*module.index.calls("parameters"), *module.index.calls("named_parameters")):
        func = call.func
        kept = isinstance(func, ast.Attribute) and _is_kept(func.value)
        if isinstance(func, ast.Attribute) and kept and _reaches_optimizer(module, call):
            found[func.value] = None
    for call in calls_like(module, _OPTIMIZERS, "optim", "Optim"):
        if _VERBS.fullmatch(word(call.func)) or not is_optimizer(module, call):
            continue
        made = (word(part.func) for part in walk(call) if isinstance(part, ast.Call))
        if not {"parameters", "named_parameters"}.isdisjoint(made):
            continue  # beside them the rest is settings
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        for node in (*owner, *call.args, *(k.value for k in call.keywords)):
            if is_plain(node) and word(node) != "self" and _is_model(module, node):
                found[node] = None
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _is_kept(node: ast.expr) -> bool:
    """``model``, ``self.model``, or one of several: ``models["a"]``."""
    return is_plain(node.value if isinstance(node, ast.Subscript) else node)


def is_plain(node: ast.expr) -> bool:
    """``model`` or ``self.model``."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "self"
    return isinstance(node, ast.Name) and node.id != "self"


def _is_model(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Name) and any(b.kind == "import" for b in module.bindings(node)):
        return False
    known = is_model(module, node) or (used_as_torch(module, node) and not proven(module, node))
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


def origins(module: Module, node: ast.expr) -> list[ast.expr]:
    """The names and attributes that ``node`` is another name for: what ``self`` holds, what callers hand on, what a loop goes over."""
    values = module.view(Values)
    found: dict[ast.expr, None] = {}
    todo, seen = [node], {node}
    for each in todo:  # grows
        cell = values.variable(each) if isinstance(each, ast.Name) else None
        behind = _behind(values, At(cell)) if cell is not None else None
        if behind is None:
            found[each] = None
            continue
        todo += [name for name in behind if name not in seen]
        seen.update(behind)
    return list(found)


def _behind(values: Values, at: At) -> list[ast.expr] | None:
    """The names and attributes that alone give a variable its value; None where anything else does."""
    found: list[ast.expr] = []
    todo, seen = [at], {at}
    for place in todo:  # grows
        edges = [edge for edge in values.sources(place) if edge.how != "default"]
        if not edges:
            return None
        for edge in edges:
            node = edge.at.node
            if not edge.at.way and isinstance(node, ast.expr) and is_plain(node) and (edge.how in _HANDED or isinstance(node, ast.Attribute)):  # fmt: skip
                found.append(node)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PARTS and is_plain(node.func.value):  # fmt: skip
                found.append(node.func.value)
            elif isinstance(node, ast.expr) and not edge.at.way:
                return None
            elif edge.at not in seen:
                seen.add(edge.at)
                todo.append(edge.at)
    return found
