"""Batches that only a wrapper moves: DataParallel scatters what a model is called with, DDP moves it to the device it is given."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Change, Insert, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.walk import walk

from ..analysis.batches import Loop
from ..analysis.batches import moved as moved_by
from ..analysis.names import word
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
        moved: set[tuple[ast.For, str]] = set()
        for loop, call, left in (*found.calls, *made):
            beside = _beside(module, loop, call, left) if loop is not None else None
            if loop is not None and beside is not None:
                mine = {(loop.node, part.id) for part in left if isinstance(part, ast.Name)}
                if mine <= moved:
                    continue  # the first of them says so
                moved |= mine
            where = _device(module, loop, call)
            names = ", ".join(f"`{module.source(part)}`" for part in left)
            fix = None
            sure = loop is None or all(_is_tensor(module, loop, part) for part in left)
            if sure or (agnostic(module) and call in found.scattered):
                moves: tuple[Change, ...] = tuple(called(part, f".to({where})") for part in left)
                if beside is not None:
                    options = "".join(f", {module.source(k)}" for k in beside[1].keywords if k.arg == "non_blocking")  # fmt: skip
                    moves = tuple(Insert(beside[0], f"{module.source(part)} = {module.source(part)}.to({where}{options})", after=False) for part in left)  # fmt: skip
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


def _beside(
    module: Module, loop: Loop, call: ast.Call, left: list[ast.expr]
) -> tuple[ast.Assign, ast.Call] | None:
    """The statement of the loop that moves another part of the batch, where each part that is left is moved as well: nothing else is done with them."""
    if not agnostic(module):
        return None
    around = {above for above in module.ancestors(call) if isinstance(above, ast.stmt)}
    for statement in loop.node.body:
        if statement in around or not all(isinstance(part, ast.Name) for part in left):
            return None
        move = moved_by(module, statement.value) if isinstance(statement, ast.Assign) else None
        if isinstance(statement, ast.Assign) and move is not None and isinstance(statement.targets[0], ast.Name):  # fmt: skip
            names = {word(part) for part in left}
            given = {part.id for part in walk(loop.node.target) if isinstance(part, ast.Name)}
            uses = [use for name in names for use in module.index.names(name) if module.function(use) is module.function(call)]  # fmt: skip
            reads = [use for use in uses if isinstance(use.ctx, ast.Load)]
            stored = [use for use in uses if use not in reads and use not in walk(loop.node.target)]
            whole = names <= given and not stored
            return (statement, move) if whole and all(_goes_along(module, loop, use) for use in reads) else None  # fmt: skip
    return None


def _goes_along(module: Module, loop: Loop, use: ast.Name) -> bool:
    """Is a part of a batch given to what calls a model with it, or is its size read?"""
    above = module.parent(use)
    if isinstance(above, ast.Attribute):
        return above.attr in ("size", "shape", "dim", "ndim")
    return any(loop is each and use in left for each, _, left in module.view(LeftBehind).calls)


def _is_tensor(module: Module, loop: Loop, part: ast.expr) -> bool:
    if isinstance(part, ast.Name) and (part.id in loop.sometimes or used_as_torch(module, part)):
        return True
    return is_tensor(module, part)
