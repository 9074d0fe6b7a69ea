"""Tests for CUDA: x.device.type == "cuda", "cuda" in str(device), match, tables by device."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, ClassVar

from hpushim.compare import Comparison, Form, find
from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Found, Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.devices import Devices
from ..analysis.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hpushim.engine.python.module import Module
    from hpushim.engine.rules.told import Told

#: A name or a text that is put together with CUDA's: ``run_cuda``, ``"model.cuda.pt"``, ``r"cuda|mps"``.
_GLUED = re.compile(rb"[A-Za-z0-9][._-]cuda(?![A-Za-z0-9])|(?<![\w.])cuda[|_-]|\bcuda *=(?!=)")


class DeviceCompare(Rule):
    """``x.device.type == "cuda"``."""

    code = "HPU107"
    name = "device-compared-with-cuda"
    severity = "error"
    wants = Wants(words=("cuda",), texts=("_cuda", "Cuda"))
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

    def on_rest(self, module: Module, told: Told) -> Iterable[Found]:
        """What is made of a device's text and compared in a form that no rule turns."""
        if module.tree is None:
            return
        for one in find(module.tree):
            span = module.span(one.node)
            if one.sure and not one.handled and self._speaks_of_cuda(module, one):
                if told.covers(span, module.position(span.start)[0]):
                    continue
                yield self.finding(
                    module,
                    one.node,
                    f"`{module.source(one.subjects[0])}` is made of a device's text, which says `hpu` on Gaudi: "
                    "what it is compared with stays",
                    severity="warning",
                    safety="manual",
                    row="cuda",
                )

    @staticmethod
    def _speaks_of_cuda(module: Module, one: Comparison) -> bool:
        """Whether CUDA's name stands in the comparison, or in what it may look up or match."""
        glued = one.form in (Form.LOOKUP, Form.SEARCH) and not isinstance(one.node, ast.Compare)
        given = one.node.args if isinstance(one.node, ast.Call) else []
        if given and module.source(given[0]) == "torch":
            return False  # getattr(torch, x.device.type): there is a torch.hpu
        return bool(one.texts) or (glued and _GLUED.search(module.data) is not None)
