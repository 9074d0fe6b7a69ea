"""What a gradient scaler keeps, in a checkpoint and in itself: nothing while loss scaling is off."""

from __future__ import annotations

import ast
from typing import Any

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.values import Values

from ..analysis.kinds import base_words
from ..analysis.names import word
from ..analysis.verdict import ask
from ..edits.arguments import argument, call_of, unwrapped
from ..values.training import is_scaler

_ROW = "torch.amp.GradScaler.state_dict"
_STATES = {"state_dict": "returns an empty dict", "load_state_dict": "loads nothing"}
#: What a scaler has only while it is on, and the methods that read some of it.
_STATE = ("_scale", "_growth_tracker", "_per_optimizer_states", "_growth_factor", "_backoff_factor", "_growth_interval", "_init_scale", "_init_growth_tracker")  # fmt: skip
_READS = ("get_growth_factor", "get_backoff_factor", "get_growth_interval", "_check_inf_per_device", "_found_inf_per_device", "_get_scale_async")  # fmt: skip
#: The scale as a tensor.
_SCALE = ("_scale", "_get_scale_async")


class ScalerState(Rule):
    """``scaler.state_dict()``, and the scale that is read from it."""

    HPU206 = Code(
        "grad-scaler-state",
        fix=("safe", "manual"),
        lower={"note": "its state is empty and still loads"},
    )
    wants = Wants(
        attributes=(*_STATE, *_READS),
        calls=("state_dict", "load_state_dict"),
        required=("GradScaler", '["scale"]', "['scale']", *(f"scaler.{name}" for name in _STATE)),
    )

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        """``scaler._scale.item()``: a scaler that is off never made it."""
        if not isinstance(node.ctx, ast.Load) or not _is_switched_off(module, node.value):
            return
        read = _as_number(module, node) if node.attr in _SCALE else None
        shown = module.source(read or node)
        what = "use a scale of 1" if node.attr in _SCALE else "test `is_enabled()` first"
        state = "fails" if node.attr in _READS else "does not exist"
        fix = Rewrite("request the scale", "safe", (_get_scale(module, read, node),)) if read else None  # fmt: skip
        yield self.finding(
            read or node,
            f"`{shown}` {state} while loss scaling is off; {what}",
            fix=fix,
            row=ask(module, _ROW).row,
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
                func,
                f"`{module.source(func)}` {_STATES[func.attr]} while loss scaling is off; old checkpoints still load",
                row=ask(module, _ROW).row,
                severity="note",
            )

    def _scale(self, module: Module, read: ast.Subscript, holder: ast.expr) -> Yield:
        """A scaler that is off has no entry for its scale, and scales by one."""
        if _is_on_the_host(module, holder):
            return
        if is_scaler(module, holder) or "scaler" in module.source(holder).lower():
            yield self.finding(
                read,
                f"`{module.source(read)}` is missing while loss scaling is off; use a scale of 1",
                fix=Rewrite("use 1 where the state is empty", "safe", (_or_one(module, read),)),
                row=ask(module, _ROW).row,
            )


def _is_switched_off(module: Module, holder: ast.expr) -> bool:
    """Is it a scaler that stays, and off? One of a class of the project scales as its class does."""
    made = [each for each in module.view(Values).origins(holder) if isinstance(each, ast.Call)]
    own = any(base_words(module, word(each.func)) for each in made)
    return is_scaler(module, holder) and not own and not _is_on_the_host(module, holder)


def _as_number(module: Module, node: ast.Attribute) -> ast.Call | None:
    """The call of ``scaler._scale.item()``, or of ``float(scaler._scale)``, around the scale; of ``scaler._get_scale_async()``, itself."""
    scale = module.parent(node) if node.attr != "_scale" else node
    above = module.parent(scale) if isinstance(scale, ast.expr) else None
    call = module.parent(above) if isinstance(above, ast.Attribute) and above.attr == "item" else above  # fmt: skip
    if isinstance(call, ast.Call) and (call.func is above or (word(call.func) == "float" and call.args == [scale])):  # fmt: skip
        return call
    counts = isinstance(above, (ast.BinOp, ast.Compare, ast.UnaryOp, ast.Return))
    return scale if isinstance(scale, ast.Call) and counts else None


def _get_scale(module: Module, read: ast.Call, node: ast.Attribute) -> Replace:
    return Replace(read, f"{module.operand(node.value)}.get_scale()")


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
