"""The option that a call declares."""

from __future__ import annotations

import ast

from hpushim.engine.python.module import Module

from .device_texts import device_name, other_device


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
