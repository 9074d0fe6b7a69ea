"""What a checkpoint keeps of a gradient scaler: nothing while loss scaling is off."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from hpushim.engine.base.code import Code
from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.verdict import ask
from ..edits.arguments import argument, call_of, unwrapped
from ..values.training import is_scaler

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_ROW = "torch.amp.GradScaler.state_dict"


class ScalerState(Rule):
    """``scaler.state_dict()``, and the scale that is read from it."""

    HPU206 = Code(
        "grad-scaler-state", fix=("safe", "manual"), lower={"info": "its state is empty, and loads"}
    )
    wants = Wants(
        calls=("state_dict", "load_state_dict"), beside=("GradScaler", '["scale"]', "['scale']")
    )

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if not isinstance(func, ast.Attribute):
            return
        above = module.parent(node)
        if isinstance(above, ast.Subscript):
            if above.value is node and func.attr == "state_dict" and _reads_scale(above):
                yield from self._scale(module, above, func.value)
        elif is_scaler(module, func.value):
            yield self.finding(
                module,
                func,
                f"`{module.source(func)}` holds nothing while loss scaling is off; "
                "old checkpoints still load",
                row=ask(module, _ROW).row,
                severity="info",
            )

    def _scale(self, module: Module, read: ast.Subscript, holder: ast.expr) -> Yield:
        """A scaler that is off has no entry for its scale, and scales by one."""
        if _is_on_the_host(module, holder):
            return
        if is_scaler(module, holder) or "scaler" in module.source(holder).lower():
            yield self.finding(
                module,
                read,
                f"`{module.source(read)}` does not exist while loss scaling is off; the scale is 1",
                fix=Rewrite("take one where none is kept", "safe", (_or_one(module, read),)),
                row=ask(module, _ROW).row,
            )


def _is_on_the_host(module: Module, holder: ast.expr) -> bool:
    """``GradScaler("cpu")``, which scales as before."""
    for value in module.values(holder):
        if isinstance(value, ast.Call):
            device = argument(value, "device", 0)
            if device is not None and module.constant(device) == "cpu":
                return True
    return False


def _reads_scale(read: ast.Subscript) -> bool:
    key = read.slice
    return isinstance(read.ctx, ast.Load) and isinstance(key, ast.Constant) and key.value == "scale"


def _or_one(module: Module, read: ast.Subscript) -> Replace:
    """``state["scale"]`` becomes ``state.get("scale", 1.0)``."""
    key = module.source(read.slice)

    def made(node: Any) -> Any:
        return unwrapped(node, call_of(node.value, f".get({key}, 1.0)"))

    return Replace(read, made)
