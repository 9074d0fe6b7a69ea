"""Whose name it is: torch's, or that of a library with devices of its own; and names by a part of them: ``register_forward_hook`` by ``register_``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpushim.engine.python.module import Module
from hpushim.matrix import load
from hpushim.pycode.scope import Binding
from hpushim.pycode.words import words_in

_POLICY = load().policy
#: Frameworks with tensors of their own, and packages with a ``cuda`` or a ``device`` of their own that is not torch's.
FRAMEWORKS = frozenset(_POLICY.frameworks)
FOREIGN = FRAMEWORKS.union(_POLICY.own_devices)
#: The frameworks whose tensors are moved as torch's are.
_TENSORS = FRAMEWORKS & {
    "chainer",
    "jittor",
    "megengine",
    "mindspore",
    "oneflow",
    "paddle",
    "tinygrad",
}
_PARTIALS = ("functools.partial", "functools.partialmethod")


def is_made_of_torch(package: str) -> bool:
    """Is a package torch, or made of it?"""
    return "torch" in package or package in _POLICY.made_of_torch


def packages(module: Module) -> frozenset[str]:
    """The top-level packages that a file imports from, other than its own by a relative import."""
    return frozenset(
        (statement.module or "" if isinstance(statement, ast.ImportFrom) else alias.name).partition(
            "."
        )[0]
        for statement in module.imports
        if not isinstance(statement, ast.ImportFrom) or not statement.level
        for alias in statement.names
    )


def root(node: ast.AST) -> ast.AST:
    """What a chain of attributes, calls and subscripts starts with."""
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.Await)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return node


def foreign(module: Module, node: ast.AST) -> bool:
    """Does the expression belong to a library whose devices are not torch's?"""
    if module.view(_tensors_of_another):
        return True
    todo, known = [root(node)], False
    seen: set[Binding] = set()
    for base in todo:  # grows by what values are made of
        found = module.bindings(base) if isinstance(base, ast.Name) else []
        if not found:
            return False
        for binding in found:
            if binding.qualified:
                known = binding.qualified.split(".")[0] in FOREIGN
                if not known:
                    return False
            elif binding not in seen:
                seen.add(binding)
                made = binding.value if binding.kind == "assign" else None
                inner = root(made) if isinstance(made, (ast.Call, ast.Attribute)) else None
                if not isinstance(inner, ast.Name) or inner.id == binding.name:
                    return False
                todo.append(inner)
    return known


def _tensors_of_another(module: Module) -> bool:
    """Does the file compute with another library that has ``.cuda()``, and never with torch?"""
    names = module.view(packages)
    return bool(names & _TENSORS) and "torch" not in names


def in_annotation(module: Module, node: ast.AST) -> bool:
    """Does ``node`` say what kind of value something is: ``rnn: nn.LSTM``, ``-> Optional[nn.RNN]``?"""
    for child, above in module.upwards(node):
        if child in (getattr(above, "annotation", None), getattr(above, "returns", None)):
            return True
        if isinstance(above, ast.stmt):
            return False
    return False


def word(node: ast.AST | None) -> str:
    """The last word of a name or a chain of attributes, behind subscripts: ``model`` for ``self.model[0]``; "" for others."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def called(module: Module, node: ast.expr) -> ast.Call | None:
    """The call of ``node``."""
    call = module.parent(node)
    return call if isinstance(call, ast.Call) and call.func is node else None


def partial_of(module: Module, node: ast.expr) -> ast.Call | None:
    """The call of ``partial(node, …)``, which gives ``node`` arguments for later."""
    call = module.parent(node)
    if isinstance(call, ast.Call) and call.args[:1] == [node]:
        return call if module.qualified(call.func) in _PARTIALS else None
    return None


def is_none(node: ast.expr) -> bool:
    """Is ``None`` written there?"""
    return isinstance(node, ast.Constant) and node.value is None


def calls_like(module: Module, pattern: re.Pattern[str], *parts: str) -> Iterator[ast.Call]:
    """The calls whose word matches ``pattern`` as a whole; each such word holds one of ``parts``."""
    words = {word for part in parts for word in words_with(module, part)}
    for word in sorted(words):
        if pattern.fullmatch(word):
            yield from module.index.calls(word)


def words_with(module: Module, part: str) -> set[str]:
    """Every word of the file that holds ``part``."""
    return set(words_in(module.data).having(part))
