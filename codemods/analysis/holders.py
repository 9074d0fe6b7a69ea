"""Expressions that hold a device: what may be compared with a device string."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .device_texts import device_name, read

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

IsDevice = Callable[[ast.AST], bool]


def holds_device(
    module: Module, node: ast.AST | None, depth: int = 4, is_device: IsDevice | None = None
) -> bool:
    """May the expression's value be compared with a device string?

    ``is_device`` tells whether a device text is known to be one; a name that holds such a text holds a device.
    """
    if node is None or depth == 0:
        return False
    if isinstance(node, ast.Attribute):
        if node.attr == "type" or device_name(node.attr):
            return True
        return any(
            _holds_text(v, is_device) or holds_device(module, v, depth - 1, is_device)
            for v in module.index.stored(node.attr)
            if v is not node
        )
    if isinstance(node, ast.Name):
        if device_name(node.id):
            return True
        return any(
            v is not node
            and (_holds_text(v, is_device) or holds_device(module, v, depth - 1, is_device))
            for v in module.values(node)
        )
    if isinstance(node, ast.Subscript):
        key = module.constant(node.slice)
        if isinstance(key, str):
            return device_name(key)
        return holds_device(module, node.value, depth - 1, is_device)
    if isinstance(node, ast.Call):
        return _device_call(module, node, depth - 1, is_device)
    if isinstance(node, (ast.BoolOp, ast.IfExp)):
        parts = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
        return any(
            _holds_text(part, is_device) or holds_device(module, part, depth - 1, is_device)
            for part in parts
        )
    return False


def _holds_text(node: ast.expr, is_device: IsDevice | None) -> bool:
    return is_device is not None and read(node) is not None and is_device(node)


def _device_call(module: Module, node: ast.Call, depth: int, is_device: IsDevice | None) -> bool:
    name = module.qualified(node.func) or ""
    if name in ("builtins.str", "builtins.repr") and node.args:
        return holds_device(module, node.args[0], depth, is_device)
    if name == "torch.device":
        return True
    if isinstance(node.func, ast.Attribute) and node.func.attr in (
        "split", "lower", "strip", "partition", "rsplit", "casefold", "__str__",
    ):  # fmt: skip
        return holds_device(module, node.func.value, depth, is_device)
    for arg in node.args:
        text = module.constant(arg)
        if isinstance(text, str) and device_name(text.lower()):
            return True
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    )
    if device_name(called) and not called.startswith(("set_", "is_", "num_", "n_")):
        return True
    return isinstance(node.func, ast.Name) and any(
        _holds_text(value, is_device) or holds_device(module, value, depth, is_device)
        for value in _returned(module, called)
    )


def _returned(module: Module, name: str) -> Iterator[ast.expr]:
    """What the file's functions of this name give back."""
    for function in module.index.definitions(name):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in ast.walk(function):
                if isinstance(part, ast.Return) and part.value is not None:
                    yield part.value
