"""Tests for CUDA: x.device.type == "cuda", "cuda" in str(device), match, tables by device."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.devices import Devices
from ..analysis.roles import Role

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


class DeviceCompare(Rule):
    """``x.device.type == "cuda"``."""

    code = "HPU107"
    name = "device-compared-with-cuda"
    severity = "error"
    wants = Wants(words=("cuda",))
    also: ClassVar[dict[str, str]] = {"HPU125": "comparison-chooses-kernels"}

    def on_module(self, module: Module) -> Yield:
        devices = module.view(Devices)
        for site in devices.of_role(Role.COMPARE):
            yield self.finding(
                module,
                site.node,
                f"a device on Gaudi is never `{module.source(site.node)}`; compare with `hpu`",
                fix=Rewrite("compare with hpu", "safe", site.changes, devices.group(site.node)),
                row="cuda",
                covers=site.covers,
            )
        for site in devices.of_role(Role.KERNELS):
            yield self.finding(
                module,
                site.node,
                f"`{module.source(site.owner)}` chooses kernels for NVIDIA hardware; it stays and is False on Gaudi",
                code="HPU125",
                severity="info",
                safety="manual",
                covers=site.covers,
            )
