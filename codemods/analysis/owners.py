"""Which package an object comes from."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from hpushim.engine.python.module import Module

_STEPS = 4


def owner(module: Module, node: ast.expr) -> str:
    """The package of a function, of a method of what a package's class has made, and so on; empty where it is not to be seen.

    ``darts`` for ``NBEATSModel`` that is imported from it, and for ``model.fit`` behind ``model = NBEATSModel(…)``.
    """
    for _ in range(_STEPS):
        name = module.qualified(node)
        if name is not None:
            return name.partition(".")[0]
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            made = [value for value in module.values(node) if isinstance(value, ast.Call)]
            if len(made) != 1:
                return ""
            node = made[0]
        if not isinstance(node, ast.Call):
            return ""
        node = node.func
    return ""


def gives_device(module: Module, packages: Collection[str]) -> bool:
    """Is something of one of these packages called with a device of its own, other than ``"auto"`` or a number?"""
    return any(
        owner(module, call.func) in packages
        for name in ("device", "device_name", "data_device")
        for keyword in module.index.keywords(name)
        if isinstance(call := module.parent(keyword), ast.Call) and _is_device(keyword.value)
    )


def _is_device(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str) and value.value not in ("auto", "gpu", "")
    return not isinstance(value, ast.List | ast.Tuple | ast.UnaryOp)
