"""The classes of a file: which are torch modules, and which methods the project defines."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .names import word
from .placement import is_of_torch
from .project_facts import CLASSES

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_MODULE_BASES = re.compile(r"^(Module|LightningModule|ModuleList|Sequential|PreTrainedModel)$")


def is_module_class(module: Module, node: ast.ClassDef) -> bool:
    """Is the class a torch module, as far as its bases and theirs say? Another framework has a ``Module`` as well."""
    return is_of_torch(module) and names_module(module, node.name)


def names_module(module: Module, name: str) -> bool:
    """Does the project have a class of that name which is a module?"""
    return any(map(_MODULE_BASES.search, base_words(module, name)))


def base_words(module: Module, name: str) -> frozenset[str]:
    """The last words of the bases that a class of the project has, and of their bases; empty for other names."""
    return module.view(_Bases).of(name)


class _Bases:
    """The bases of the project's classes, by name; request it as a view."""

    def __init__(self, module: Module) -> None:
        self._direct: dict[str, set[str]] = {}
        self._known: dict[str, frozenset[str]] = {}
        for said in module.project.names(CLASSES.name):
            owner, _, base = said.partition(":")
            self._direct.setdefault(owner, set()).add(base)
        own: dict[str, set[str]] = {}  # what the file says of a name counts before what others do
        for node in module.index.statements(ast.ClassDef):
            named = {(module.qualified(b) or word(b)).rpartition(".")[2] for b in node.bases}
            own.setdefault(node.name, set()).update(named)
        self._direct |= own

    def of(self, name: str) -> frozenset[str]:
        found = self._known.get(name)
        if found is None:
            bases = set(self._direct.get(name, ()))
            new = list(bases)
            while new:
                more = self._direct.get(new.pop(), set()) - bases
                bases |= more
                new += more
            found = self._known[name] = frozenset(bases)
        return found


def local_class(module: Module, node: ast.AST) -> ast.ClassDef | None:
    """The class of this file that a name refers to."""
    if isinstance(node, ast.Name):
        for binding in module.bindings(node):
            if isinstance(binding.node, ast.ClassDef):
                return binding.node
    return None


def enclosing_class(module: Module, node: ast.AST) -> ast.ClassDef | None:
    """The class whose method ``node`` is in."""
    return next((a for a in module.ancestors(node) if isinstance(a, ast.ClassDef)), None)


def is_in_module(module: Module, node: ast.AST) -> bool:
    """Does ``node`` stand in a method of a torch module?"""
    owner = enclosing_class(module, node)
    return owner is not None and is_module_class(module, owner)


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
