"""Data types and layouts that Gaudi does not have."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rules.rule import Costs, Found, Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.verdict import inside, known

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_DOUBLE = ("torch.float64", "torch.double", "torch.DoubleTensor")
_OTHER = (
    "torch.complex64", "torch.complex128", "torch.complex32", "torch.cfloat", "torch.cdouble",
    "torch.view_as_complex", "torch.polar", "torch.complex",
    "torch.qint8", "torch.quint8", "torch.qint32",
)  # fmt: skip
_POINTERS = ("data_ptr", "__cuda_array_interface__")
_EXCHANGE = ("torch.utils.dlpack.*", "torch.to_dlpack", "torch.from_dlpack")
_LIMITS = ("unsupported", "unknown", "partial", "emulated")


class DeviceDtype(Rule):
    """``torch.float64`` and others in a file that uses the device."""

    code = "HPU117"
    name = "float64-on-device"
    costs = Costs(none=("HPU119",), numbers=("HPU117", "HPU118"))
    severity = "warning"
    wants = Wants(
        names=(*_DOUBLE, *_OTHER, *_EXCHANGE),
        attributes=_POINTERS,
        calls=("double",),
        beside=("cuda", "hpu"),
    )
    also: ClassVar[dict[str, str]] = {
        "HPU118": "dtype-or-layout-limit",
        "HPU119": "raw-device-memory",
    }

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if not isinstance(node, ast.Attribute) or module.qualified(node) != name:
            return
        shown = module.source(node)
        if name in _DOUBLE:
            yield self._double(module, node, f"`{shown}`")
        elif name in _OTHER:
            part, verdict = known(module, name)
            if verdict is None or verdict.status in _LIMITS:
                note = inside(verdict.note) if verdict else "it is not in the matrix"
                yield self.finding(
                    module, node, f"`{shown}` is limited on Gaudi: {note}",
                    row=part if verdict else None, code="HPU118",
                )  # fmt: skip
        else:
            yield self.finding(
                module,
                node,
                f"`{shown}` shares memory with a library for CUDA; go through the CPU",
                code="HPU119",
            )

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        yield self.finding(
            module,
            node,
            f"`.{node.attr}` hands out an address on the card, which code for CUDA cannot use on Gaudi",
            row="torch.Tensor.data_ptr",
            code="HPU119",
        )

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        if isinstance(node.func, ast.Attribute) and not node.args:
            yield self._double(module, node, "`.double()`")

    def _double(self, module: Module, node: ast.expr, shown: str) -> Found:
        return self.finding(
            module,
            node,
            f"{shown} is kept as 32-bit floats on the card",
            row="torch.float64",
            severity="info",
        )
