"""Values read back from the card: bfloat16 that numpy does not know, and reads in every step of a training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from ._claims import kept_whole
from ._torch import foreign
from ._verdict import ask, inside

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_HALF = (b"autocast", b"float16", b".half(", b"fp16")
#: What makes the dtype another one, or shows that it is none of floats.
_OTHER = frozenset(["float", "double", "int", "long", "bool", "byte", "short", "argmax", "argmin", "argsort", "nonzero", "round", "topk", "type"])  # fmt: skip
_ON_THE_WAY = frozenset(["cpu", "detach", "data", "clone", "squeeze", "contiguous", "view", "reshape", "permute", "transpose"])  # fmt: skip


class HostRead(Rule):
    """``x.cpu().numpy()`` under mixed precision, ``loss.item()`` in a training loop."""

    code = "HPU120"
    name = "numpy-of-bfloat16"
    markers = ()  # no reason to read a file
    also: ClassVar[dict[str, str]] = {"HPU513": "read-in-training-loop"}

    @classmethod
    def applies(cls, module: Module) -> bool:
        device = b"cuda" in module.data or b"device" in module.data or b".to(" in module.data
        return (b".numpy()" in module.data or b".item()" in module.data) and (
            device or any(word in module.data for word in _HALF)
        )

    def __init__(self) -> None:
        self._told = False

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        func = node.func
        if not isinstance(func, ast.Attribute) or node.args or node.keywords or kept_whole(module):
            return
        if func.attr == "numpy":
            yield from self._numpy(module, node, func)
        elif func.attr == "item" and not self._told:
            yield from self._item(module, node)

    def _numpy(self, module: Module, node: ast.Call, func: ast.Attribute) -> Iterator[Finding]:
        if not any(word in module.data for word in _HALF) or foreign(module, func):
            return
        if not _may_be_half(func.value):
            return
        answer = ask(module, "torch.Tensor.numpy")
        at = module.span(func.value).end
        yield self.finding(
            module,
            func,
            "numpy knows float16 and no bfloat16, which half precision is on Gaudi: "
            "`.float().numpy()`, if the values are floats",
            fix=Fix("read it as float32", "unsafe", (module.insert(at, ".float()"),)),
            row=answer.row,
        )

    def _item(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        if b"backward(" not in module.data or not _in_every_step(module, node):
            return
        self._told = True  # advice is given once in a file
        answer = ask(module, "torch.Tensor.item")
        yield self.finding(
            module,
            node,
            f"`{module.source(node).splitlines()[-1].strip()}` in every step: {inside(answer.note)}",
            row=answer.row,
            code="HPU513",
            severity="info",
        )


def _may_be_half(value: ast.expr) -> bool:
    """Does a value come from the card as it was computed, as far as the chain of calls says?"""
    moved = False
    while True:
        if isinstance(value, ast.Call):
            called = getattr(value.func, "attr", "")
            if called in _OTHER or (
                called == "to" and value.args and not moved and len(value.args) > 1
            ):
                return False
            moved |= called in ("cpu", "to")
            if called not in _ON_THE_WAY | {"to"} or not isinstance(value.func, ast.Attribute):
                return moved
            value = value.func.value
        elif isinstance(value, (ast.Attribute, ast.Subscript)):
            value = value.value
        else:
            return moved


def _in_every_step(module: Module, node: ast.Call) -> bool:
    """Does the read stand in a loop that trains, under no condition of its own?"""
    for above in module.ancestors(node):
        if isinstance(
            above, (ast.If, ast.IfExp, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        ):
            return False
        if isinstance(above, (ast.For, ast.While)):
            return any(
                isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "backward"
                for part in ast.walk(above)
            )
    return False
