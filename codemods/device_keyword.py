"""CUDA device strings given to a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _devices

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


class DeviceKeyword(Rule):
    """``torch.zeros(3, device="cuda")``."""

    code = "HPU105"
    name = "cuda-device-argument"
    severity = "error"

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        _devices.of(module)
        yield from ()

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
