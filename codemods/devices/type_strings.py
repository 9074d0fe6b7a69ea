"""The type of a tensor as text: on Gaudi it cannot be given back to ``.type()``."""

from __future__ import annotations

import ast
from typing import Any

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.kinds import defines_method
from ..analysis.names import foreign, word
from ..analysis.verdict import ask
from ..edits.arguments import renamed_method, unwrapped
from ..edits.spelling import agnostic

_SHOWN = frozenset(["print", "format", "info", "debug", "warning", "write", "log", "error"])


class TypeText(Rule):
    """``mask.type(x.type())``, ``dtype=x.type()``."""

    HPU126 = Code("type-as-text", severity="error", fix=("safe", "manual"))
    wants = Wants(calls=("type",), required=(".type()",))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if (
            not isinstance(func, ast.Attribute)
            or node.args
            or node.keywords
            or not module.holds("torch")
            or foreign(module, func)
            or defines_method(module, "type")
            or _is_only_looked_at(module, node)
            or agnostic(module)  # the text names whatever device the tensor is on
        ):
            return
        text, tensor, fix = module.source(node), module.source(func.value), _converted(module, node)
        does = (
            f"write `.to({tensor})` for `.type({text})`"
            if fix
            else f"pass `{tensor}` instead, and call `.to()` with it where the code calls `.type()`"
        )
        yield self.finding(
            node,
            f"`{text}` is `torch.hpu.FloatTensor` on Gaudi, which `.type()` does not accept; {does}",
            fix=fix,
            row=ask(module, "torch.Tensor.type").row,
        )


def _converted(module: Module, node: ast.Call) -> Rewrite | None:
    """``mask.type(x.type())`` to ``mask.to(x)``."""
    outer = module.parent(node)
    if (
        not isinstance(outer, ast.Call)
        or not isinstance(outer.func, ast.Attribute)
        or outer.func.attr != "type"
        or outer.args != [node]
        or outer.keywords
    ):
        return None
    changes = (
        Replace(outer, lambda there: renamed_method(there, "to")),
        Replace(node, _receiver),
    )
    return Rewrite("convert to the tensor itself", "safe", changes)


def _receiver(call: Any) -> Any:
    return unwrapped(call, call.func.value)


def _is_only_looked_at(module: Module, node: ast.Call) -> bool:
    """Is the text compared, printed or thrown away? Comparisons have a rule of their own."""
    parent = module.parent(node)
    if isinstance(parent, (ast.Compare, ast.FormattedValue, ast.Expr, ast.BinOp, ast.Attribute)):
        return True
    return isinstance(parent, ast.Call) and word(parent.func) in _SHOWN
