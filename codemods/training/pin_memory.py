"""Page-locked memory: who it is for."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Strength, Wants, Yield

from ..analysis.kinds import defines_method
from ..analysis.names import foreign
from ..analysis.verdict import ask
from ..edits.arguments import add
from ..edits.spelling import DEVICE, quoted
from ..values.tensors import proven

_LOADERS = frozenset(
    {"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", "torch_geometric.loader.DataLoader"}
)  # fmt: skip
_ROW = "torch.utils.data.DataLoader(pin_memory=True)"
#: From here on torch pins for the accelerator that is there, and calls the argument deprecated.
_PINS_BY_ITSELF = (2, 8)


class PinMemory(Rule):
    """``DataLoader(pin_memory=True)`` on a torch that pins for CUDA unless a device is given."""

    HPU606 = Code("pin-memory-without-device", fix="safe", effect="speed")
    HPU607 = Code("pinned-without-device", fix="safe", effect="speed")
    wants = Wants(keywords=("pin_memory",), calls=("pin_memory", "is_pinned"))
    strength = Strength.FIRM

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """``x.pin_memory()``, ``x.is_pinned()``."""
        func = node.func
        if not isinstance(func, ast.Attribute) or node.args or node.keywords:
            return
        if not _old_torch(module) or foreign(module, func):
            return
        if defines_method(module, func.attr) and not proven(module, func.value):
            return
        yield self.finding(
            func,
            f"`{module.source(func).splitlines()[-1].strip()}` tests for CUDA unless a device is "
            "passed; pass `hpu`",
            fix=Rewrite("name hpu", "safe", (add(node, quoted(module, DEVICE)),)),
            row=ask(module, f"torch.Tensor.{func.attr}").row,
            code="HPU607",
        )

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        """``DataLoader(…, pin_memory=True)``."""
        call = module.parent(node)
        if not isinstance(call, ast.Call) or module.qualified(call.func) not in _LOADERS:
            return
        given = {keyword.arg for keyword in call.keywords}
        if "pin_memory_device" in given or None in given or not _old_torch(module):
            return
        if isinstance(node.value, ast.Constant) and not node.value.value:
            return
        text = f"pin_memory_device={quoted(module, DEVICE)}"
        yield self.finding(
            node,
            f"`{module.source(node)}` pins for CUDA unless a device is passed; pass `hpu`",
            fix=Rewrite("name hpu", "safe", (add(call, text, behind=node.value),)),
            row=ask(module, _ROW).row,
        )


def _old_torch(module: Module) -> bool:
    """Was the target's release built with a torch that needs the argument?"""
    release = module.matrix.release(module.target.stack)
    versions = [tuple(int(n) for n in v.split(".")[:2]) for v in release.torch] if release else []
    return bool(versions) and max(versions) < _PINS_BY_ITSELF
