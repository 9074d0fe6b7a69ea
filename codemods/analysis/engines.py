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
#: What stands for an object of the class around: its own methods say what they do.
_OWN = ("self", "cls")
#: Names that people give to what they call ``backward`` on.
LOSS = re.compile(r"loss|cost|^err(or)?$", re.I)


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
    return any(LOSS.search(_first_word(arg)) for arg in given)


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
    """Does the file treat ``node`` as an engine of DeepSpeed: hands a loss to its ``backward``, or runs its ``step`` too?"""
    return module.source(node) in module.view(_engines)


def has_engine(module: Module) -> bool:
    """Is there an engine? Only what runs on a device is one."""
    return bool(module.view(_engines))


def _engines(module: Module) -> frozenset[str]:
    """What has a loss handed to its ``backward``; or anything, where it has a ``step`` too: no tensor has both."""
    passes = [
        call
        for call in module.index.calls("backward")
        if isinstance(call.func, ast.Attribute)
        and (module.qualified(call.func) or "builtins.").startswith("builtins.")
    ]
    stepped = {_receiver(module, call) for call in module.index.calls("step")}
    return frozenset(
        name
        for call in passes
        if (name := _receiver(module, call))
        and (_is_handed_loss(call) or (call.args and name in stepped and name not in _OWN))
    )


def _receiver(module: Module, call: ast.Call) -> str:
    return module.source(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _is_handed_loss(call: ast.Call) -> bool:
    """The receiver is no loss itself: ``loss.backward(loss_gradient)``."""
    assert isinstance(call.func, ast.Attribute)
    return hands_loss(call) and not LOSS.search(_first_word(call.func.value))
