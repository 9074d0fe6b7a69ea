"""Steps of training: what runs a backward pass, what updates parameters, and which of them a framework drives."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpushim.pycode.walk import walk

from .engines import LOSS, drives, hands_loss, is_engine, is_lightning
from .names import word
from .optimizers import is_optimizer, is_scaler, is_scaler_call
from .words import calls_like
from .wrappers import STEPS, is_wrapper, own_method

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_SCALERS = re.compile(r"\w*scaler\w*")


class Step(enum.Enum):
    """What a call does to the parameters of a model."""

    #: ``loss.backward()``.
    BACKWARD = "backward"
    #: ``optimizer.step()``.
    UPDATE = "update"


def steps(module: Module) -> list[tuple[ast.Call, Step]]:
    """The steps of the file, in source order, outer calls first."""
    calls = [*module.index.calls("backward"), *module.index.calls("step")]
    calls += calls_like(module, STEPS, "step_and_", "_and_step", "t_step", "d_step")
    found = [(call, step) for call in calls if (step := _step(module, call)) is not None]
    scalers = calls_like(module, _SCALERS, "scaler")
    found += [(call, Step.UPDATE) for call in scalers if is_scaler_call(module, call)]
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
    name = module.qualified(func)
    if name == "torch.autograd.backward":
        return True
    base = func.value
    if _is_super(base) or is_lightning(module, base):
        return False
    if isinstance(base, ast.Name) and base.id == "self":
        method = own_method(module, func)
        return is_wrapper(module, method) if method is not None else hands_loss(call)
    if isinstance(base, ast.Name) and base.id in ("cls", "ctx"):
        return False
    if _is_imported(module, func) and not (name or "").startswith("builtins."):
        return False
    method = own_method(module, func)
    return not _is_class(module, base) and (method is None or is_wrapper(module, method))


def _is_super(base: ast.expr) -> bool:
    return (
        isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super"
    )


def is_of_loss(call: ast.Call) -> bool:
    """Is it a loss whose gradients are taken: ``(loss_d * gain).mean().backward()``?"""
    return any(
        isinstance(part, (ast.Name, ast.Attribute)) and LOSS.search(word(part)) is not None
        for part in walk(call)
        if part is not call.func
    )


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
    base = func.value
    if _is_super(base) or is_lightning(module, base):
        return False
    method = own_method(module, func)
    if method is not None:
        return is_wrapper(module, method)
    if isinstance(base, ast.Name) and base.id in ("self", "cls"):
        return False
    if call.args and (is_scaler(module, base) or is_optimizer(module, call.args[0])):
        return True
    return is_engine(module, base) or is_optimizer(module, base)


# -- frameworks -----------------------------------------------------------------------------


def is_driven(module: Module, update: ast.stmt, plain: Sequence[ast.stmt]) -> bool:
    """Is the backward pass that goes with an update one of Lightning (``fabric.backward(loss)``), which marks both?

    ``plain`` are the statements with other backward passes. What stands in the same function decides; without any
    backward there, the whole file.
    """
    driven = module.view(drives)
    if not driven:
        return False
    around = module.function(update)
    if any(module.function(other) is around for other in plain):
        return False
    return any(module.function(call) is around for call in driven) or not plain
