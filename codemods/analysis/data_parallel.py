"""Models that DataParallel wraps, and the batches that nothing else moves for them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.rules.references import find

from .batches import Loop, loader_moves, loops
from .kinds import used_as_torch
from .names import called, word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

ROW = "torch.nn.DataParallel"
NAMES = frozenset({ROW, "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel.DataParallel"})  # fmt: skip


class LeftBehind:
    """The batches that nothing moves for the models which DataParallel wraps: ``module.view(LeftBehind)``."""

    def __init__(self, module: Module) -> None:
        #: The loop, the call of a wrapped model, and its arguments that nothing moves.
        self.calls: list[tuple[Loop, ast.Call, list[ast.expr]]] = []
        #: Is any call of a wrapped model seen at all?
        self.seen = False
        wrapped = _wrapped(module)
        told: set[ast.Call] = set()
        for loop in module.view(loops):
            supplied = loader_moves(module, loop)
            for call, left in loop.calls:
                ours = word(call.func) in wrapped
                self.seen |= ours
                if (
                    left
                    and not supplied
                    and call not in told
                    and (ours or _beside_moves(module, loop, call, left))
                ):
                    told.add(call)
                    self.calls.append((loop, call, left))


def _wrapped(module: Module) -> set[str]:
    """The names under which the file keeps what it has wrapped: ``model``, ``self.model``, ``model.features``."""
    names: set[str] = set()
    for node, _ in find(module, *sorted(NAMES)):
        call = called(module, node)
        if call is None:
            continue
        statement = module.statement(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            while isinstance(target, ast.Attribute):
                names.add(target.attr)
                target = target.value
            if isinstance(target, ast.Name):
                names.add(target.id)
    return names - {"self", "cls"}


def _beside_moves(module: Module, loop: Loop, call: ast.Call, left: list[ast.expr]) -> bool:
    """Is a model that another file made called with nothing moved, beside parts of the batch that are moved?

    On CUDA that works only where something moves what the model is given.
    """
    batch = {part.id for part in ast.walk(loop.node.target) if isinstance(part, ast.Name)}
    names = {part.id for part in left if isinstance(part, ast.Name)}
    return (
        len(left) == len(names) == len(call.args) + len(call.keywords)
        and names <= batch - loop.sometimes
        and bool(loop.always & batch - names)
        and isinstance(module.parent(call), ast.Assign)
        and used_as_torch(module, call.func)
    )
