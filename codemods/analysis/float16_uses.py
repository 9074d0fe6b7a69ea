"""Mentions of float16, and which of them reach an autocast."""

from __future__ import annotations

import ast

from hpushim.engine.python.module import Module
from hpushim.engine.rules.references import find
from hpushim.pycode.values import At, Values
from hpushim.pycode.walk import walk

from .autocast import CUDA_ONLY, GENERIC, site

HALF = frozenset({"torch.float16", "torch.half"})
#: Where a mention tests a dtype and sets none.
_ASKING = (ast.Compare, ast.MatchValue)
_ASKING_CALLS = ("torch.finfo", "torch.iinfo", "builtins.isinstance", "torch.promote_types")


def autocast_halves(module: Module) -> frozenset[ast.expr]:
    """The mentions of float16 that regions of autocast get as their dtype; request it as a view."""
    found: list[ast.expr] = []
    for node, _ in find(module, *sorted(CUDA_ONLY | GENERIC)):
        region = site(module, node)
        if region is None or region.dtype is None or module.constant(region.device) == "cpu":
            continue
        reached = halves(module, region.dtype)
        found += reached
        if reached:
            found += _tested(module, region.dtype)
        if reached and region.enabled is not None:
            found += _compared(module, region.enabled)
    return frozenset(found)


def halves(module: Module, node: ast.expr) -> list[ast.expr]:
    """Every mention of float16 that ``node`` may evaluate to, by whatever way it comes."""
    values = module.view(Values)
    reached = [edge.at for edge in values.reach(node, values.sources, Values.SAME | {"given"})]
    nodes = dict.fromkeys(at.node for at in (At(node), *reached) if not at.way)
    return [n for n in nodes if isinstance(n, ast.Attribute) and module.qualified(n) in HALF]


def only_tests(module: Module, node: ast.expr) -> bool:
    """Does the mention only compare, look up or describe?"""
    for child, above in module.upwards(node):
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
    return False


def followers(module: Module) -> list[ast.expr]:
    """The mentions of float16 that ask what others have set: once those are bfloat16, these ask in vain.

    What knows bfloat16 beside it, in the same condition or table, has an answer for both.
    """
    tests = [node for node, _ in find(module, *sorted(HALF)) if only_tests(module, node)]
    return [node for node in tests if not _knows_bfloat16(module, node)]


def _knows_bfloat16(module: Module, node: ast.expr) -> bool:
    around = module.statement(node)
    while isinstance(above := module.parent(around), ast.If) and around in above.orelse:
        around = above
    return any(isinstance(part, ast.Attribute) and part.attr == "bfloat16" for part in walk(around))


def _compared(module: Module, enabled: ast.expr) -> list[ast.expr]:
    """The float16 that a region's switch compares with: it has to follow the region's dtype."""
    return [
        part
        for value in module.values(enabled)
        for compare in walk(value)
        if isinstance(compare, ast.Compare)
        for part in walk(compare)
        if isinstance(part, ast.Attribute) and module.qualified(part) in HALF
    ]


def _tested(module: Module, dtype: ast.expr) -> list[ast.expr]:
    """The float16 that what a region gets as its dtype is compared with, or looked up by, elsewhere.

    Where the name never holds bfloat16 by itself, the questions follow it; else they have an answer for both.
    """
    if not isinstance(dtype, (ast.Name, ast.Attribute)) or _may_be_bfloat16(module, dtype):
        return []
    return [half for read in _reads(module, dtype) for half in _questions(module, read)]


def _questions(module: Module, read: ast.expr) -> list[ast.expr]:
    above = module.parent(read)
    if isinstance(above, ast.Compare):
        return _mentions(
            module, [side for side in (above.left, *above.comparators) if side is not read]
        )
    if isinstance(above, ast.Subscript) and above.slice is read:
        table = above.value
    elif (
        isinstance(above, ast.Call)
        and read in above.args[:1]
        and isinstance(above.func, ast.Attribute)
    ):
        if above.func.attr not in ("get", "pop"):
            return []
        table = above.func.value
    else:
        return []
    if not _is_read_once(module, table):
        return []
    tables = [value for value in module.values(table) if isinstance(value, ast.Dict)]
    return [
        half for value in tables for half in _mentions(module, [key for key in value.keys if key])
    ]


def _mentions(module: Module, nodes: list[ast.expr]) -> list[ast.expr]:
    """float16 among some nodes, and none where bfloat16 is among them as well."""
    parts = [part for node in nodes for part in (getattr(node, "elts", None) or [node])]
    names = [module.qualified(part) for part in parts]
    if "torch.bfloat16" in names:
        return []
    return [
        part
        for part, name in zip(parts, names, strict=True)
        if name in HALF and isinstance(part, ast.Attribute)
    ]


def _may_be_bfloat16(module: Module, dtype: ast.Name | ast.Attribute) -> bool:
    values = module.index.stored(dtype.attr) if isinstance(dtype, ast.Attribute) else [dtype]
    return any(
        module.qualified(part) == "torch.bfloat16"
        for value in values
        for inner in module.values(value)
        for part in walk(inner)
        if isinstance(part, (ast.Attribute, ast.Name))
    )


def _reads(module: Module, dtype: ast.Name | ast.Attribute) -> list[ast.expr]:
    """The other places that read the same name, or the same attribute of the same object."""
    if isinstance(dtype, ast.Attribute):
        written = module.source(dtype)
        return [
            node for node in module.index.attributes(dtype.attr) if module.source(node) == written
        ]
    bound = module.bindings(dtype)
    names = module.index.names(dtype.id)
    return [
        node for node in names if isinstance(node.ctx, ast.Load) and module.bindings(node) is bound
    ]


def _is_read_once(module: Module, table: ast.expr) -> bool:
    """Is a table looked up here and nowhere else?"""
    if isinstance(table, ast.Dict):
        return True
    return isinstance(table, ast.Name) and len(module.index.names(table.id)) == 2
