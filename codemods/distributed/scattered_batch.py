"""Batches that only a wrapper moves: DataParallel scatters what a model is called with, DDP moves it to the device it is given."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.batches import Loop
from ..analysis.verdict import ask
from ..edits.arguments import called
from ..edits.spelling import DEVICE, agnostic, quoted
from ..values.data_parallel import LeftBehind
from ..values.tensors import is_tensor, used_as_torch


class ScatteredBatch(Rule):
    """``output = model(input)`` where only ``target`` was moved."""

    HPU321 = Code(
        "batch-moved-by-data-parallel",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        effort="hours",
    )
    wants = Wants(texts=("DataParallel", ".cuda("))

    def on_module(self, module: Module) -> Yield:
        found = module.view(LeftBehind)
        made = ((None, call, parts) for call, parts in found.made)
        for loop, call, left in (*found.calls, *made):
            where = _device(module, loop, call)
            names = ", ".join(f"`{module.source(part)}`" for part in left)
            fix = None
            sure = loop is None or all(_is_tensor(module, loop, part) for part in left)
            if sure or (agnostic(module) and call in found.scattered):
                moves = tuple(called(part, f".to({where})") for part in left)
                fix = Rewrite("move it here", "safe" if sure else "unsafe", moves)
            yield self.finding(
                call,
                f"on Gaudi `{module.source(call.func)}`, a DataParallel or DDP wrapper, does not move {names} to its device; "
                f"add `.to({where})` in this call",
                fix=fix,
                row=ask(module, "inputs that DataParallel scatters").row,
            )


def _device(module: Module, loop: Loop | None, call: ast.Call) -> str:
    """What the rest of the batch is moved to, or else where the model is: right on every machine."""
    if loop is not None and loop.device is not None:
        return module.source(loop.device)
    if agnostic(module):
        return quoted(module, DEVICE, call)
    return f"next({module.operand(call.func)}.parameters()).device"


def _is_tensor(module: Module, loop: Loop, part: ast.expr) -> bool:
    if isinstance(part, ast.Name) and (part.id in loop.sometimes or used_as_torch(module, part)):
        return True
    return is_tensor(module, part)
