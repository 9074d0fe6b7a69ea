"""Moves to a CUDA device with .to()."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix, Safety

from . import _devices
from ._claims import claim, claimed
from ._dual import dual, either
from ._names import rank_like
from ._strings import quoted
from ._torch import defines_method, foreign, proven, used_as_torch

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


class ToDevice(Rule):
    """``x.to("cuda")``, ``x.to(0)``, ``x.to(rank)``."""

    code = "HPU104"
    name = "to-cuda"
    severity = "error"
    markers = (
        b"cuda",
        b".to(0",
        b".to(rank",
        b".to(local_rank",
        b".to(gpu",
        b".to(device_id",
        b".to(args.local_rank",
        b".to(args.gpu",
        b".to(self.rank",
        b".to(self.local_rank",
        b".to(self.gpu",
    )

    def __init__(self) -> None:
        self._numbered: list[ast.Call] = []

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        _devices.of(module)
        yield from ()

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "to"
            and node.args
            and rank_like(module, node.args[0])
            and not foreign(module, node.func)
            and not claimed(module, node)
        ):
            self._numbered.append(node)
            claim(module, node.args[0])
        return ()

    def on_module(self, module: Module) -> Iterator[Finding]:
        devices = _devices.of(module)
        for site in devices.of_kind("to"):
            yield self.finding(
                module,
                site.node,
                f"`.to({module.source(site.node)})` has no device to go to on Gaudi; it is `hpu`",
                fix=Fix("write hpu", "safe", site.edits, devices.group(site.node)),
                row="cuda",
            )
        for call in self._numbered:
            yield self._number(module, call)

    def _number(self, module: Module, call: ast.Call) -> Finding:
        argument = call.args[0]
        word = quoted(module, "hpu", argument)
        if dual(module):
            word = either(word, module.source(argument))[1:-1]
        edit = module.replace(argument, word)
        return self.finding(
            module,
            argument,
            f"`.to({module.source(argument)})` picks a card by number; "
            "a process on Gaudi holds one card, `hpu`",
            fix=Fix("write hpu", self._safety(module, call), (edit,)),
            row="cuda",
        )

    def _safety(self, module: Module, call: ast.Call) -> Safety:
        """Safe for tensors and modules, and for a rank, which is nothing else than a card."""
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        if proven(module, receiver):
            return "safe"
        if used_as_torch(module, receiver):
            return "safe"
        constant = isinstance(call.args[0], ast.Constant)
        return "unsafe" if constant or defines_method(module, "to") else "safe"
