"""Models and tensors shared between processes: torch shares the memory of NVIDIA cards, not of Gaudi."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding

from ._batches import moved
from ._claims import kept_whole
from ._torch import defines_method, proven, used_as_torch
from ._verdict import ask, inside

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_METHODS = ("share_memory", "share_memory_")


class SharedMemory(Rule):
    """``model.share_memory()`` of a model that is on the device."""

    code = "HPU322"
    name = "shared-device-memory"
    markers = (b"share_memory",)

    @classmethod
    def applies(cls, module: Module) -> bool:
        return b"cuda" in module.markers or b"device" in module.markers

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        func = node.func
        if not isinstance(func, ast.Attribute) or func.attr not in _METHODS or kept_whole(module):
            return
        known = proven(module, func.value) or used_as_torch(module, func.value)
        if not known and defines_method(module, func.attr):
            return
        answer = ask(module, "torch.nn.Module.share_memory")
        on_card = _on_card(module, func.value)
        where = "" if on_card else ", should it be on the card"
        yield self.finding(
            module,
            func,
            f"`{module.source(func)}` is of no use on Gaudi{where}: {inside(answer.note)}",
            row=answer.row,
            severity="error" if on_card else "warning",
        )


def _on_card(module: Module, shared: ast.expr) -> bool:
    """Does the file move the object to a device?"""
    if moved(module, shared) is not None:
        return True
    if any(v is not shared and moved(module, v) is not None for v in module.values(shared)):
        return True
    name = module.source(shared)
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("cuda", "to")
        and module.source(call.func.value) == name
        and moved(module, call) is call
        for call in module.of_type(ast.Call)
    )
