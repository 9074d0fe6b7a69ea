"""CUDA device strings given to a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _devices
from ._claims import claim, claimed
from ._dual import dual, either
from ._names import rank_like
from ._strings import quoted
from ._torch import dotted

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


_MAKERS = ("new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "to")


class DeviceKeyword(Rule):
    """``torch.zeros(3, device="cuda")``."""

    code = "HPU105"
    name = "cuda-device-argument"
    severity = "error"

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        _devices.of(module)
        yield from ()

    def on_keyword(self, module: Module, node: ast.keyword) -> Iterable[Finding]:
        """``torch.zeros(3, device=rank)``: the number of a card."""
        return self._numbered(module, node) if node.arg == "device" else ()

    def _numbered(self, module: Module, node: ast.keyword) -> Iterator[Finding]:
        call = module.parent(node)
        if not isinstance(call, ast.Call) or claimed(module, node):
            return
        name = dotted(module, call.func) or ""
        makes = name.startswith("torch.") and not name.startswith(("torch.cuda.", "torch.device"))
        if not makes and getattr(call.func, "attr", "") not in _MAKERS:
            return
        if rank_like(module, node.value):
            claim(module, node.value)
            word = quoted(module, "hpu", node.value)
            if dual(module):
                word = either(word, module.source(node.value))[1:-1]
            yield self.finding(
                module,
                node.value,
                f"`{module.source(node)}` picks a card by number; a process on Gaudi holds one card, `hpu`",
                fix=Fix(
                    "write hpu",
                    "safe",
                    (module.replace(node.value, word),),
                ),
                row="cuda",
            )

    def on_module(self, module: Module) -> Iterator[Finding]:
        devices = _devices.of(module)
        for site in devices.of_kind("argument"):
            yield self.finding(
                module,
                site.node,
                f"`{module.source(site.node)}` is no device on Gaudi; pass `hpu`",
                fix=Fix("write hpu", "safe", site.edits, devices.group(site.node)),
                row="cuda",
            )
