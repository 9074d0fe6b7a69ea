"""What a call reaches: the parameters of a function of the file, the option that it declares."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .device_texts import device_name, other_device

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


def declares_device(module: Module, call: ast.Call) -> bool:
    """Does the call declare an option that holds a device?"""
    for arg in call.args:
        text = module.constant(arg)
        if isinstance(text, str) and device_name(text):
            return True
    for keyword in call.keywords:
        if keyword.arg == "dest" and device_name(str(module.constant(keyword.value))):
            return True
        choices = keyword.value if keyword.arg == "choices" else None
        if any(other_device(e) for e in getattr(choices, "elts", ())):
            return True
    parent = module.parent(call)
    targets = (
        parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]
    )
    return any(isinstance(t, ast.Name) and device_name(t.id) for t in targets)


def parameters_of(module: Module, call: ast.Call) -> list[ast.arguments]:
    """The parameters of the function of this file that the call may reach."""
    func = call.func
    found: list[ast.arguments] = []
    if isinstance(func, ast.Name):
        for binding in module.bindings(func):
            node = binding.node
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(node.args)
            elif isinstance(node, ast.ClassDef):
                found += _methods(node, "__init__")
    elif (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.value.id == "self"
    ):
        for above in module.ancestors(call):
            if isinstance(above, ast.ClassDef):
                found += _methods(above, func.attr)
    return found


def positional_of(module: Module, args: ast.arguments) -> list[ast.arg]:
    """The parameters that a call gives by place: those of a method without ``self``."""
    found = [*args.posonlyargs, *args.args]
    owner = module.parent(args)
    in_class = owner is not None and isinstance(module.parent(owner), ast.ClassDef)
    return found[1:] if in_class and found and found[0].arg in ("self", "cls") else found


def _methods(owner: ast.ClassDef, name: str) -> list[ast.arguments]:
    return [s.args for s in owner.body if isinstance(s, ast.FunctionDef) and s.name == name]
