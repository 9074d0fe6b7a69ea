"""The classes of a file: which are torch modules, and which methods the project defines."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .names import word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_MODULE_BASES = re.compile(r"(^|\.)(Module|LightningModule|ModuleList|Sequential|PreTrainedModel)$")


def is_module_class(module: Module, node: ast.ClassDef) -> bool:
    """Is the class a torch module, as far as its bases say?"""
    for base in node.bases:
        name = module.qualified(base) or ""
        if _MODULE_BASES.search(name):
            return True
        if isinstance(base, ast.Name):
            for binding in module.bindings(base):
                inner = binding.node
                if isinstance(inner, ast.ClassDef) and inner is not node:
                    return is_module_class(module, inner)
    return False


def local_class(module: Module, node: ast.AST) -> ast.ClassDef | None:
    """The class of this file that a name refers to."""
    if isinstance(node, ast.Name):
        for binding in module.bindings(node):
            if isinstance(binding.node, ast.ClassDef):
                return binding.node
    return None


def enclosing_class(module: Module, node: ast.AST) -> ast.ClassDef | None:
    """The class whose method ``node`` stands in."""
    return next((a for a in module.ancestors(node) if isinstance(a, ast.ClassDef)), None)


def is_in_module(module: Module, node: ast.AST) -> bool:
    """Does ``node`` stand in a method of a torch module?"""
    owner = enclosing_class(module, node)
    return owner is not None and is_module_class(module, owner)


def serves_module(module: Module, node: ast.AST) -> bool:
    """Does ``node`` stand in a function that a method of a torch module in this file calls?"""
    function = module.function(node)
    return function is not None and any(
        isinstance(call.func, ast.Name) and is_in_module(module, call)
        for call in module.index.calls(function.name)
    )


def defines_method(module: Module, name: str) -> bool:
    """Does a class of the project, or of this file, define a method of this name?"""
    if name in module.project.methods:
        return True
    return any(
        isinstance(node, ast.FunctionDef)
        and isinstance(module.parent(node), ast.ClassDef)
        and not _is_property(node)
        for node in module.index.definitions(name)
    )


def _is_property(node: ast.FunctionDef) -> bool:
    names = [word(decorator) for decorator in node.decorator_list]
    return any(name.endswith("property") or name in ("setter", "getter") for name in names)
