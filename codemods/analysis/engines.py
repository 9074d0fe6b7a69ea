"""Things with a ``backward`` of their own: engines of DeepSpeed, accelerators, wrappers; and Lightning, which marks."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .names import word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Lightning's trainer and Fabric call ``mark_step`` through the strategies of lightning-habana.
_LIGHTNING = re.compile(r"^_?fabric$|_fabric$", re.I)
LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
_LOSS = re.compile(r"loss|cost|^err(or)?$", re.I)


def is_lightning(module: Module, node: ast.expr) -> bool:
    """Does ``node`` come from Lightning, whose strategies for HPU mark the steps?"""
    if _LIGHTNING.search(word(node)):
        return True
    for value in module.values(node):
        called = module.qualified(value.func) if isinstance(value, ast.Call) else None
        if called is not None and called.split(".", maxsplit=1)[0] in LIGHTNING:
            return True
    return False


def drives(module: Module) -> list[ast.Call]:
    """Every backward pass of the file that Lightning runs."""
    found = [
        call
        for call in module.index.calls("backward")
        if isinstance(call.func, ast.Attribute) and is_lightning(module, call.func.value)
    ]
    return [*found, *module.index.calls("manual_backward")]


def hands_loss(call: ast.Call) -> bool:
    """``engine.backward(loss)``: a tensor's own method takes a gradient, not a loss."""
    given = [*call.args, *(k.value for k in call.keywords if k.arg in (None, "loss", "losses"))]
    return any(_LOSS.search(_first_word(arg)) for arg in given)


def _first_word(node: ast.expr) -> str:
    """The word of what an expression starts with: ``loss`` for ``self.loss / n``."""
    while isinstance(node, (ast.BinOp, ast.Subscript, ast.Starred, ast.Call)):
        if isinstance(node, ast.BinOp):
            node = node.right if isinstance(node.left, ast.Constant) else node.left
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute):
                return word(node.func)
            node = node.func.value
        else:
            node = node.value
    return word(node)


def is_engine(module: Module, node: ast.expr) -> bool:
    """Does the file hand a loss to ``node.backward``, as one does with an engine of DeepSpeed?"""
    return module.source(node) in module.view(_engines)


def has_engine(module: Module) -> bool:
    """Is a loss handed to anything? Only what runs on a device has such a method."""
    return bool(module.view(_engines))


def _engines(module: Module) -> frozenset[str]:
    return frozenset(
        module.source(call.func.value)
        for call in module.index.calls("backward")
        if isinstance(call.func, ast.Attribute)
        and hands_loss(call)
        and (module.qualified(call.func) or "builtins.").startswith("builtins.")
        and not _LOSS.search(_first_word(call.func.value))
    )
