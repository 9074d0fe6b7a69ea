"""Data types and layouts that Gaudi does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding

from ._claims import claimed
from ._names import known, said
from ._torch import dotted

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_DOUBLE = frozenset({"torch.float64", "torch.double", "torch.DoubleTensor"})
_OTHER = frozenset(
    {
        "torch.complex64", "torch.complex128", "torch.complex32", "torch.cfloat", "torch.cdouble",
        "torch.view_as_complex", "torch.polar", "torch.complex",
        "torch.qint8", "torch.quint8", "torch.qint32",
    }
)  # fmt: skip
_POINTERS = frozenset({"data_ptr", "__cuda_array_interface__"})
_EXCHANGE = ("torch.utils.dlpack.", "torch.to_dlpack", "torch.from_dlpack")


class DeviceDtype(Rule):
    """``torch.float64`` and others in a file that uses the device."""

    code = "HPU117"
    name = "float64-on-device"
    severity = "warning"
    also: ClassVar[dict[str, str]] = {
        "HPU118": "dtype-or-layout-limit",
        "HPU119": "raw-device-memory",
    }

    def on_Attribute(self, module: Module, node: ast.Attribute) -> Iterable[Finding]:
        if node.attr in _POINTERS:
            return self._pointer(module, node)
        name = dotted(module, node)
        if name is None or not (name in _DOUBLE or name in _OTHER or name.startswith(_EXCHANGE)):
            return ()
        return self._limited(module, node, name)

    def _pointer(self, module: Module, node: ast.Attribute) -> Iterator[Finding]:
        if not claimed(module, node):
            yield self.finding(
                module,
                node,
                f"`.{node.attr}` hands out an address on the card, which code for CUDA cannot use on Gaudi",
                row="torch.Tensor.data_ptr",
                code="HPU119",
            )

    def _limited(self, module: Module, node: ast.Attribute, name: str) -> Iterator[Finding]:
        if claimed(module, node):
            return
        shown = module.source(node)
        if name in _DOUBLE:
            yield self.finding(
                module,
                node,
                f"`{shown}` is kept as 32-bit floats on the card",
                row="torch.float64",
                severity="info",
            )
        elif name in _OTHER:
            part, verdict = known(module, name)
            if verdict is None or verdict.status in (
                "unsupported",
                "unknown",
                "partial",
                "emulated",
            ):
                note = said(verdict.note) if verdict else "it is not in the matrix"
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

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "double"
            and not node.args
            and not claimed(module, node)
        ):
            yield self.finding(
                module,
                node,
                "`.double()` is kept as 32-bit floats on the card",
                row="torch.float64",
                severity="info",
            )
