"""Models that DataParallel wraps, and the batches that nothing else moves for them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ._batches import Loop, loader_moves, loops
from ._torch import used_as_torch

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

ROW = "torch.nn.DataParallel"
NAMES = frozenset({ROW, "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel.DataParallel"})  # fmt: skip


def left_behind(module: Module) -> tuple[list[tuple[Loop, ast.Call, list[ast.expr]]], bool]:
    """The calls of wrapped models whose arguments nothing moves, and whether any such call is seen at all."""
    known = module.notes.get("left behind")
    if known is None:
        wrapped = _wrapped(module)
        found: list[tuple[Loop, ast.Call, list[ast.expr]]] = []
        told: set[ast.Call] = set()
        seen = False
        for loop in loops(module):
            supplied = loader_moves(module, loop)
            for call, left in loop.calls:
                ours = _called(call) in wrapped
                seen |= ours
                if (
                    left
                    and not supplied
                    and call not in told
                    and (ours or _beside_moves(module, loop, call, left))
                ):
                    told.add(call)
                    found.append((loop, call, left))
        known = module.notes["left behind"] = found, seen
    return known


def _wrapped(module: Module) -> set[str]:
    """The names under which the file keeps what it has wrapped: ``model``, ``self.model``, ``model.features``."""
    names: set[str] = set()
    for call in module.of_type(ast.Call):
        means = module.possible_names(call.func)
        if not means or not means <= NAMES:
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


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


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
