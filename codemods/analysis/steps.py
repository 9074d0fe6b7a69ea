"""Steps of training: what runs a backward pass, what updates parameters, and which of them a framework drives."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .names import word
from .optimizers import is_optimizer, is_scaler
from .words import calls_like

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Things with a ``backward`` of their own that also place the marks, or do not run on the device.
_FRAMEWORKS = re.compile(
    r"accelerator|^accel$|fabric|engine|strategy|deepspeed|ds_model|manager", re.I
)
_FRAMEWORK_MODULES = (
    "accelerate",
    "lightning",
    "pytorch_lightning",
    "lightning_fabric",
    "deepspeed",
)
#: What wrappers of optimizers call the method that steps and does something else besides.
_STEPS = re.compile(r"step|step_and_\w+|\w+_and_step")
_LOSS = re.compile(r"loss|cost|^err(or)?$", re.I)


class Step(enum.Enum):
    """What a call does to the parameters of a model."""

    #: ``loss.backward()``.
    BACKWARD = "backward"
    #: ``optimizer.step()``.
    UPDATE = "update"


def steps(module: Module) -> list[tuple[ast.Call, Step]]:
    """The steps of the file, in source order, outer calls first."""
    calls = [*module.index.calls("backward"), *module.index.calls("step")]
    calls += calls_like(module, _STEPS, "step_and_", "_and_step")
    found = [(call, step) for call in calls if (step := _step(module, call)) is not None]
    return sorted(found, key=lambda item: _place(item[0]))


def _place(call: ast.Call) -> tuple[int, int, int, int]:
    return call.lineno, call.col_offset, -(call.end_lineno or 0), -(call.end_col_offset or 0)


def _step(module: Module, call: ast.Call) -> Step | None:
    func = call.func
    if not isinstance(func, ast.Attribute):
        return None
    if func.attr == "backward":
        return Step.BACKWARD if _is_backward(module, call, func) else None
    return Step.UPDATE if _is_update(module, call, func) else None


# -- backward passes ------------------------------------------------------------------------


def _is_backward(module: Module, call: ast.Call, func: ast.Attribute) -> bool:
    if _hands_loss(call) and module.qualified(func) is None:
        return is_optimizer(module, func.value)  # the wrapper of apex: `optimizer.backward(loss)`
    name = module.qualified(func)
    if name is not None:
        if name == "torch.autograd.backward":
            return True
        if not name.startswith("builtins.") and _is_imported(module, func):
            return False
    base = func.value
    if isinstance(base, ast.Name) and base.id in ("self", "cls", "ctx", "accelerator"):
        return False
    if isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super":
        return False
    if _FRAMEWORKS.search(_first_word(base)) or _of_framework(module, base):
        return False
    return not _is_class(module, base)


def _hands_loss(call: ast.Call) -> bool:
    """``engine.backward(loss)``: a tensor's own method takes a gradient, not a loss."""
    return any(_LOSS.search(_first_word(arg)) for arg in call.args)


def is_of_loss(call: ast.Call) -> bool:
    """Is it a loss whose gradients are taken: ``(loss_d * gain).mean().backward()``?"""
    assert isinstance(call.func, ast.Attribute)
    return any(
        isinstance(part, (ast.Name, ast.Attribute)) and _LOSS.search(word(part)) is not None
        for part in ast.walk(call.func.value)
    )


def _first_word(node: ast.expr) -> str:
    """The word of what an expression starts with: ``loss`` for ``self.loss / n``."""
    while isinstance(node, (ast.BinOp, ast.Subscript)):
        node = node.left if isinstance(node, ast.BinOp) else node.value
    return word(node)


def _is_imported(module: Module, node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and any(b.kind == "import" for b in module.bindings(node))


def _is_class(module: Module, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and any(
        isinstance(b.node, ast.ClassDef) for b in module.bindings(node)
    )


# -- updates --------------------------------------------------------------------------------


def _is_update(module: Module, call: ast.Call, func: ast.Attribute) -> bool:
    if _of_framework(module, func.value):
        return False
    if call.args and is_scaler(module, func.value):
        return True
    return is_optimizer(module, func.value)


# -- frameworks -----------------------------------------------------------------------------


def _of_framework(module: Module, node: ast.expr) -> bool:
    """Does ``node`` come from a framework that marks its steps itself, or has none?"""
    for value in module.values(node):
        called = module.qualified(value.func) if isinstance(value, ast.Call) else None
        if called is not None and called.split(".", maxsplit=1)[0] in _FRAMEWORK_MODULES:
            return True
    return False


def is_driven(module: Module, update: ast.stmt, plain: Sequence[ast.stmt]) -> bool:
    """Is the backward pass that goes with an update a framework's (``accelerator.backward(loss)``)?

    ``plain`` are the statements with other backward passes. What stands in the same function decides; without any
    backward there, the whole file.
    """
    driven = module.view(_framework_backwards)
    if not driven:
        return False
    around = module.function(update)
    if any(module.function(other) is around for other in plain):
        return False
    return any(module.function(call) is around for call in driven) or not plain


def _framework_backwards(module: Module) -> list[ast.Call]:
    """Every call of a framework's ``backward`` in the file."""
    return [
        call
        for call in module.index.calls("backward")
        if isinstance(call.func, ast.Attribute)
        and (
            _of_framework(module, call.func.value)
            or (_hands_loss(call) and module.qualified(call.func) is None)
        )
        and not _is_backward(module, call, call.func)
    ]
