"""Tests for CUDA: x.device.type == "cuda", "cuda" in str(device), match, tables by device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _devices

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


class DeviceCompare(Rule):
    """``x.device.type == "cuda"``."""

    code = "HPU107"
    name = "device-compared-with-cuda"
    severity = "error"
    also: ClassVar[dict[str, str]] = {"HPU125": "comparison-chooses-kernels"}

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        _devices.of(module)
        yield from ()

    def on_module(self, module: Module) -> Iterator[Finding]:
        devices = _devices.of(module)
        for site in devices.of_kind("compare"):
            yield self.finding(
                module,
                site.node,
                f"a device on Gaudi is never `{module.source(site.node)}`; compare with `hpu`",
                fix=Fix("compare with hpu", "safe", site.edits, devices.group(site.node)),
                row="cuda",
            )
        for site in devices.of_kind("kernels"):
            yield self.finding(
                module,
                site.node,
                f"`{module.source(site.owner)}` chooses kernels for NVIDIA hardware; it stays and is False on Gaudi",
                code="HPU125",
                severity="info",
                safety="manual",
            )
