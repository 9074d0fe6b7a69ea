"""Kernels that a library registers for CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpushim.engine.base.code import Code
from hpushim.engine.rules.rule import Claim, Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.registrations import registrations
from ..analysis.verdict import ask, inside

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_ROW = "torch.library.Library.impl"


class RegisteredKernel(Rule):
    """``@torch.library.impl("ns::op", "cuda")``."""

    HPU725 = Code("kernel-registered-for-cuda", effort="none", effect="kernel")
    wants = Wants(words=("cuda", "CUDA"), beside=("regist", "impl", "custom_op", "kernel"))

    def on_module(self, module: Module) -> Yield:
        answer = ask(module, _ROW)
        for found in module.view(registrations):
            body = found.kernel.body if found.kernel is not None else []
            yield from map(Claim, body)
            yield self.finding(
                module,
                found.devices[0],
                f"`{module.source(found.call.func)}`: {inside(answer.note)}",
                row=answer.row,
                claims=found.devices,
            )
