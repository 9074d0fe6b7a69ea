"""Attributes whose names are put together: ``getattr(dist, f"is_{backend}_available")``.

What is put in decides whether there is such an attribute, so a word that turns may take it away.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.module import Module

_BY_NAME = ("getattr", "hasattr", "setattr", "delattr", "methodcaller", "attrgetter")
_DISTRIBUTED = ("torch.distributed", "torch.distributed.distributed_c10d")


def part_of_name(module: Module, node: ast.AST) -> bool:
    """Is the value put into the name of an attribute?"""
    for child, above in module.upwards(node):
        if isinstance(above, ast.Call) and child in above.args:
            called = getattr(above.func, "id", getattr(above.func, "attr", ""))
            if called in _BY_NAME:
                return child is not node
            if called not in ("format", "join"):
                return False
        elif not isinstance(above, (ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.Attribute, ast.Tuple)):  # fmt: skip
            return False
    return False


def is_name(module: Module, node: ast.AST) -> bool:
    """Is the value itself the name of an attribute: ``getattr(model, "cuda" if gpu else "cpu")()``?"""
    call = module.parent(node)
    if not isinstance(call, ast.Call):
        return False
    called = getattr(call.func, "id", getattr(call.func, "attr", ""))
    if called in ("methodcaller", "attrgetter"):
        return call.args[:1] == [node]
    return called in _BY_NAME and call.args[1:2] == [node]


def availability(module: Module) -> Iterator[tuple[ast.Call, ast.expr, ast.expr]]:
    """Every ``getattr(dist, f"is_{backend}_available")`` of the file, with the object whose it is and the backend."""
    for call in module.index.calls("getattr"):
        if len(call.args) in (2, 3) and not call.keywords:
            backend = _between(call.args[1])
            if backend is not None and module.qualified(call.args[0]) in _DISTRIBUTED:
                yield call, call.args[0], backend


def _between(node: ast.expr) -> ast.expr | None:
    """What is between ``is_`` and ``_available``."""
    match node:
        case ast.JoinedStr(
            values=[
                ast.Constant(value="is_"),
                ast.FormattedValue(conversion=-1, format_spec=None) as field,
                ast.Constant(value="_available"),
            ]
        ):
            return field.value
        case ast.BinOp(
            left=ast.BinOp(left=ast.Constant(value="is_"), op=ast.Add(), right=middle),
            op=ast.Add(),
            right=ast.Constant(value="_available"),
        ):
            return middle
        case ast.BinOp(
            left=ast.Constant(value="is_%s_available"),
            op=ast.Mod(),
            right=(ast.Tuple(elts=[middle]) | (ast.Name() | ast.Attribute() as middle)),
        ):
            return middle
        case ast.Call(
            func=ast.Attribute(
                value=ast.Constant(value="is_{}_available" | "is_{0}_available"), attr="format"
            ),
            args=[middle],
            keywords=[],
        ):
            return middle
    return None
