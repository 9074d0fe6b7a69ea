"""Values read back from the card: bfloat16 that numpy does not know, and reads in every step of a training loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Found, Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.names import foreign
from ..analysis.verdict import ask, inside
from ..edits.arguments import called

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_HALF = ("autocast", "float16", ".half(", "fp16")
#: What makes the dtype another one, or shows that it is none of floats.
_OTHER = frozenset(["float", "double", "int", "long", "bool", "byte", "short", "argmax", "argmin", "argsort", "nonzero", "round", "topk", "type"])  # fmt: skip
_ON_THE_WAY = frozenset(["cpu", "detach", "data", "clone", "squeeze", "contiguous", "view", "reshape", "permute", "transpose"])  # fmt: skip


class HostRead(Rule):
    """``x.cpu().numpy()`` under mixed precision, ``loss.item()`` in a training loop."""

    code = "HPU120"
    name = "numpy-of-bfloat16"
    wants = Wants(calls=("numpy", "item"), beside=("cuda", "device", ".to(", *_HALF), advice=True)
    also: ClassVar[dict[str, str]] = {"HPU513": "read-in-training-loop"}

    def __init__(self) -> None:
        self._is_told = False

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if not isinstance(func, ast.Attribute) or node.args or node.keywords:
            return
        if func.attr == "numpy":
            if _is_mixed(module) and not foreign(module, func) and _may_be_half(func.value):
                yield self._numpy(module, node, func)
        elif not self._is_told and _trains(module) and _is_in_every_step(module, node):
            self._is_told = True  # advice is given once in a file
            yield self._item(module, node)

    def _numpy(self, module: Module, node: ast.Call, func: ast.Attribute) -> Found:
        answer = ask(module, "torch.Tensor.numpy")
        return self.finding(
            module,
            func,
            "numpy knows float16 and no bfloat16, which half precision is on Gaudi: "
            "`.float().numpy()`, if the values are floats",
            fix=Rewrite("read it as float32", "unsafe", (called(func.value, ".float()"),)),
            row=answer.row,
        )

    def _item(self, module: Module, node: ast.Call) -> Found:
        answer = ask(module, "torch.Tensor.item")
        return self.finding(
            module,
            node,
            f"`{module.source(node).splitlines()[-1].strip()}` in every step: {inside(answer.note)}",
            row=answer.row,
            code="HPU513",
            severity="info",
        )


def _is_mixed(module: Module) -> bool:
    """Does the file speak of half precision?"""
    return any(text.encode() in module.data for text in _HALF)


def _trains(module: Module) -> bool:
    return b"backward(" in module.data


def _may_be_half(value: ast.expr) -> bool:
    """Does a value come from the card as it was computed, as far as the chain of calls says?"""
    moved = False
    while True:
        if isinstance(value, ast.Call):
            method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
            if method in _OTHER or (
                method == "to" and value.args and not moved and len(value.args) > 1
            ):
                return False
            moved |= method in ("cpu", "to")
            if method not in _ON_THE_WAY | {"to"} or not isinstance(value.func, ast.Attribute):
                return moved
            value = value.func.value
        elif isinstance(value, (ast.Attribute, ast.Subscript)):
            value = value.value
        else:
            return moved


def _is_in_every_step(module: Module, node: ast.Call) -> bool:
    """Does the read stand in a loop that trains, under no condition of its own?"""
    for above in module.ancestors(node):
        if isinstance(
            above, (ast.If, ast.IfExp, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        ):
            return False
        if isinstance(above, (ast.For, ast.While)):
            return any(
                isinstance(part, ast.Call)
                and isinstance(part.func, ast.Attribute)
                and part.func.attr == "backward"
                for part in ast.walk(above)
            )
    return False
