"""The typed tensors of the old interface: ``torch.cuda.FloatTensor``, and the names that files give to them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from hpushim.engine.python.exports import exported, in_annotations
from hpushim.engine.python.module import Module

SET_DEFAULT = "torch.set_default_tensor_type"
#: The types, with the dtype that each represents.
DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "ShortTensor": "int16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "BoolTensor": "bool",
}


@dataclass(frozen=True, eq=False)
class Alias:
    """``Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor``, where all uses of the name are known.

    ``host`` is the other branch when it is the type of the host, ``other`` when it is a type of CUDA as well.
    """

    statement: ast.Assign
    target: ast.Name
    node: ast.expr
    host: ast.expr | None
    other: ast.expr | None
    uses: list[ast.Name]

    @property
    def choice(self) -> ast.IfExp | None:
        value = self.statement.value
        return value if isinstance(value, ast.IfExp) else None


def aliases(module: Module, typed: dict[ast.expr, str]) -> dict[ast.expr, Alias]:
    """For each typed tensor of CUDA (``typed`` has their types) that is given a name: the name, if all its uses are known."""
    found = ((node, _alias(module, node, kind, typed)) for node, kind in typed.items())
    return {node: alias for node, alias in found if alias is not None}


def _alias(module: Module, node: ast.expr, kind: str, typed: Iterable[ast.expr]) -> Alias | None:
    parent = module.parent(node)
    choice = parent if isinstance(parent, ast.IfExp) else None
    statement = module.parent(choice) if choice is not None else parent
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or _read_elsewhere(module, target):
        return None
    host = other = None
    if choice is not None:
        side = choice.orelse if choice.body is node else choice.body
        if is_host_type(module, side, kind):
            host = side
        elif side in typed:
            other = side
        else:
            return None
    uses = _uses(module, target)
    if other is not None and any(conversion(module, use) is None for use in uses):
        return None
    return Alias(statement, target, node, host, other, uses) if uses else None


def _read_elsewhere(module: Module, target: ast.Name) -> bool:
    """Is it a name of the module that other files, or annotations in strings, use?"""
    if in_annotations(module, target.id):
        return True
    return module.scope(target) is module.global_scope and exported(module, target.id)


def _uses(module: Module, target: ast.Name) -> list[ast.Name]:
    """Where the name is read; nothing where it is bound twice, or neither called nor given to ``.type()``."""
    bound = module.scope(target).lookup(target.id)
    uses = [
        name
        for name in module.index.names(target.id)
        if isinstance(name.ctx, ast.Load) and module.bindings(name) is bound
    ]
    plain = all(_is_called(module, use) or conversion(module, use) is not None for use in uses)
    return uses if plain and len(bound) == 1 else []


def _is_called(module: Module, node: ast.expr) -> bool:
    parent = module.parent(node)
    return isinstance(parent, ast.Call) and parent.func is node


def conversion(module: Module, node: ast.AST) -> ast.Call | None:
    """The call of ``x.type(node)``."""
    call = module.parent(node)
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "type"
        and len(call.args) == 1
        and call.args[0] is node
        and not call.keywords
    ):
        return call
    return None


def is_host_type(module: Module, node: ast.expr, kind: str) -> bool:
    """Is it the type of the host that goes with the ``kind`` of CUDA?"""
    name = module.qualified(node)
    return name == f"torch.{kind}" or (kind == "FloatTensor" and name == "torch.Tensor")


def is_default_type(module: Module, node: ast.expr) -> bool:
    """Is the type given to ``set_default_tensor_type``, by itself or as a choice?"""
    above = module.parent(node)
    for call in (above, module.parent(above) if above is not None else None):
        if isinstance(call, ast.Call) and module.qualified(call.func) == SET_DEFAULT:
            return True
    return False
