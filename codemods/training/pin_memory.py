"""Page-locked memory: who it is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from ._strings import quoted
from ._torch import defines_method, dotted, foreign, proven
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_LOADERS = frozenset(
    {"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", "torch_geometric.loader.DataLoader"}
)  # fmt: skip
_METHODS = ("pin_memory", "is_pinned")
_ROW = "torch.utils.data.DataLoader(pin_memory=True)"
#: From here on torch pins for the accelerator that is there, and calls the argument deprecated.
_PINS_BY_ITSELF = (2, 8)


class PinMemory(Rule):
    """``DataLoader(pin_memory=True)`` on a torch that pins for CUDA unless told."""

    code = "HPU606"
    name = "pin-memory-without-device"
    severity = "warning"
    markers = (b"pin_memory", b"is_pinned")
    also: ClassVar[dict[str, str]] = {"HPU607": "pinned-without-device"}

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _METHODS:
            yield from self._method(module, node, func)
        elif dotted(module, node.func) in _LOADERS:
            yield from self._loader(module, node)

    def _method(self, module: Module, node: ast.Call, func: ast.Attribute) -> Iterator[Finding]:
        """``x.pin_memory()``, ``x.is_pinned()``."""
        if node.args or node.keywords or not _old_torch(module) or foreign(module, func):
            return
        if defines_method(module, func.attr) and not proven(module, func.value):
            return
        edit = module.insert(module.span(node).end - 1, quoted(module, "hpu"))
        answer = ask(module, f"torch.Tensor.{func.attr}")
        yield self.finding(
            module,
            func,
            f"`{module.source(func).splitlines()[-1].strip()}` looks for CUDA unless the device is named; name `hpu`",
            fix=Fix("name hpu", "safe", (edit,)),
            row=answer.row,
            code="HPU607",
        )

    def _loader(self, module: Module, node: ast.Call) -> Iterator[Finding]:
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
