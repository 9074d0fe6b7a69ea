"""CUDA device strings given to a function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.cards import is_card
from ..analysis.devices import Devices
from ..analysis.roles import Role
from ..edits.spelling import numbered

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_MAKERS = ("new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "to")


class DeviceKeyword(Rule):
    """``torch.zeros(3, device="cuda")``."""

    code = "HPU105"
    name = "cuda-device-argument"
    severity = "error"
    wants = Wants(keywords=("device",), words=("cuda",), beside=("cuda",))

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        """``torch.zeros(3, device=rank)``: the number of a card."""
        call = module.parent(node)
        if (
            isinstance(call, ast.Call)
            and _makes_tensors(module, call)
            and is_card(module, node.value)
        ):
            yield self.finding(
                module,
                node.value,
                f"`{module.source(node)}` picks a card by number; a process on Gaudi holds one card, `hpu`",
                fix=Rewrite("write hpu", "safe", (numbered(module, node.value),)),
                row="cuda",
                covers=(node.value,),
            )

    def on_module(self, module: Module) -> Yield:
        devices = module.view(Devices)
        for site in devices.of_role(Role.ARGUMENT):
            yield self.finding(
                module,
                site.node,
                f"`{module.source(site.node)}` does not exist on Gaudi; write `hpu`",
                fix=Rewrite("write hpu", "safe", site.changes, devices.group(site.node)),
                row="cuda",
                covers=site.covers,
            )


def _makes_tensors(module: Module, call: ast.Call) -> bool:
    name = module.qualified(call.func) or ""
    if name.startswith("torch.") and not name.startswith(("torch.cuda.", "torch.device")):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in _MAKERS
