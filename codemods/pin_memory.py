"""Page-locked memory: who it is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from ._strings import quoted
from ._torch import dotted
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_LOADERS = frozenset(
    {"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", "torch_geometric.loader.DataLoader"}
)  # fmt: skip
_ROW = "torch.utils.data.DataLoader(pin_memory=True)"
#: From here on torch pins for the accelerator that is there, and calls the argument deprecated.
_PINS_BY_ITSELF = (2, 8)


class PinMemory(Rule):
    """``DataLoader(pin_memory=True)`` on a torch that pins for CUDA unless told."""

    code = "HPU606"
    name = "pin-memory-without-device"
    severity = "warning"
    markers = (b"pin_memory",)

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        if dotted(module, node.func) not in _LOADERS:
            return
        given = {keyword.arg: keyword for keyword in node.keywords}
        pin = given.get("pin_memory")
        if pin is None or "pin_memory_device" in given or None in given:
            return
        if isinstance(pin.value, ast.Constant) and not pin.value.value:
            return
        if not _old_torch(module):
            return
        edit = module.insert(module.span(pin).end, f", pin_memory_device={quoted(module, 'hpu')}")
        yield self.finding(
            module,
            pin,
            f"`{module.source(pin)}` pins for CUDA unless the device is named; name `hpu`",
            fix=Fix("name hpu", "safe", (edit,)),
            row=ask(module, _ROW).row,
        )


def _old_torch(module: Module) -> bool:
    """Was the target's release built with a torch that has to be told?"""
    release = module.matrix.release(module.target.stack)
    versions = [tuple(int(n) for n in v.split(".")[:2]) for v in release.torch] if release else []
    return bool(versions) and max(versions) < _PINS_BY_ITSELF
