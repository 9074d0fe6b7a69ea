"""Mentions of float16, and which of them reach an autocast."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.rules.references import find

from .autocast import CUDA_ONLY, GENERIC, site

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

HALF = frozenset({"torch.float16", "torch.half"})
_DEPTH = 8
#: Where a mention asks about a dtype and sets none.
_ASKING = (ast.Compare, ast.MatchValue)
_ASKING_CALLS = ("torch.finfo", "torch.iinfo", "builtins.isinstance", "torch.promote_types")


def autocast_halves(module: Module) -> frozenset[ast.expr]:
    """The mentions of float16 that regions of autocast get as their dtype; ask for it as a view."""
    found: list[ast.expr] = []
    for node, _ in find(module, *sorted(CUDA_ONLY | GENERIC)):
        region = site(module, node)
        if region is None or region.dtype is None or module.constant(region.device) == "cpu":
            continue
        reached = halves(module, region.dtype)
        found += reached
        if reached and region.enabled is not None:
            found += _compared(module, region.enabled)
    return frozenset(found)


def halves(module: Module, node: ast.expr, depth: int = _DEPTH) -> list[ast.expr]:
    """Every mention of float16 that ``node`` may evaluate to: through names, tables, functions, attributes."""
    if depth == 0:
        return []
    again = depth - 1
    if isinstance(node, (ast.Attribute, ast.Name)) and module.qualified(node) in HALF:
        return [node] if isinstance(node, ast.Attribute) else []
    if isinstance(node, ast.Subscript):
        return _in_table(module, node.value, again)
    if isinstance(node, ast.Call):
        return _through_call(module, node, again)
    if isinstance(node, ast.Attribute):
        values = module.index.stored(node.attr)
    else:
        values = [value for value in module.values(node) if value is not node]
    return [half for value in values for half in halves(module, value, again)]


def asks(module: Module, node: ast.expr) -> bool:
    """Does the mention only compare, look up or describe?"""
    child: ast.AST = node
    for above in module.ancestors(node):
        if isinstance(above, _ASKING):
            return True
        if isinstance(above, ast.Dict) and any(key is child for key in above.keys):
            return True
        if isinstance(above, ast.Subscript) and above.slice is child:
            return True
        if isinstance(above, ast.Call):
            return module.qualified(above.func) in _ASKING_CALLS
        if isinstance(above, ast.stmt):
            return False
        child = above
    return False


def _compared(module: Module, enabled: ast.expr) -> list[ast.expr]:
    """The float16 that a region's switch compares with: it has to follow the region's dtype."""
    return [
        part
        for value in module.values(enabled)
        for compare in ast.walk(value)
        if isinstance(compare, ast.Compare)
        for part in ast.walk(compare)
        if isinstance(part, ast.Attribute) and module.qualified(part) in HALF
    ]


def _in_table(module: Module, table: ast.expr, depth: int) -> list[ast.expr]:
    """float16 among the values of ``{"float16": torch.float16, …}``."""
    return [
        half
        for value in module.values(table)
        if isinstance(value, ast.Dict)
        for item in value.values
        for half in halves(module, item, depth)
    ]


def _through_call(module: Module, call: ast.Call, depth: int) -> list[ast.expr]:
    """``table.get(name, torch.float16)``, and what a function of this file returns."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in ("get", "pop"):
        found = _in_table(module, func.value, depth)
        for default in call.args[1:2]:
            found += halves(module, default, depth)
        return found
    if isinstance(func, ast.Name):
        return [
            half
            for binding in module.bindings(func)
            if isinstance(binding.node, ast.FunctionDef)
            for part in ast.walk(binding.node)
            if isinstance(part, ast.Return) and part.value is not None
            for half in halves(module, part.value, depth)
        ]
    return []
