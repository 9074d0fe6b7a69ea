"""Expressions that hold a device: what may be compared with a device string."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _text
from ._torch import attribute_values, dotted

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

Evidence = Callable[[ast.AST], bool]


def holds_device(
    module: Module, node: ast.AST | None, depth: int = 4, evidence: Evidence | None = None
) -> bool:
    """May the expression's value be compared with a device string?

    ``evidence`` tells whether a device text is known to be one; a name that holds such a text holds a device.
    """
    if node is None or depth == 0:
        return False
    if isinstance(node, ast.Attribute):
        if node.attr == "type" or _text.device_name(node.attr):
            return True
        return any(
            _told(v, evidence) or holds_device(module, v, depth - 1, evidence)
            for v in attribute_values(module, node.attr)
            if v is not node
        )
    if isinstance(node, ast.Name):
        if _text.device_name(node.id):
            return True
        return any(
            v is not node and (_told(v, evidence) or holds_device(module, v, depth - 1, evidence))
            for v in module.values(node)
        )
    if isinstance(node, ast.Subscript):
        key = module.constant(node.slice)
        if isinstance(key, str):
            return _text.device_name(key)
        return holds_device(module, node.value, depth - 1, evidence)
    if isinstance(node, ast.Call):
        return _device_call(module, node, depth - 1, evidence)
    if isinstance(node, (ast.BoolOp, ast.IfExp)):
        parts = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
        return any(
            _told(part, evidence) or holds_device(module, part, depth - 1, evidence)
            for part in parts
        )
    return False


def _told(node: ast.expr, evidence: Evidence | None) -> bool:
    return evidence is not None and _text.read(node) is not None and evidence(node)


def _device_call(module: Module, node: ast.Call, depth: int, evidence: Evidence | None) -> bool:
    name = dotted(module, node.func) or ""
    if name in ("builtins.str", "builtins.repr") and node.args:
        return holds_device(module, node.args[0], depth, evidence)
    if name == "torch.device":
        return True
    if isinstance(node.func, ast.Attribute) and node.func.attr in (
        "split", "lower", "strip", "partition", "rsplit", "casefold", "__str__",
    ):  # fmt: skip
        return holds_device(module, node.func.value, depth, evidence)
    for arg in node.args:
        text = module.constant(arg)
        if isinstance(text, str) and _text.device_name(text.lower()):
            return True
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    )
    return _text.device_name(called) and not called.startswith(("set_", "is_", "num_", "n_"))
