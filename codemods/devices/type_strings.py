"""The type of a tensor as text: on Gaudi it cannot be given back to ``.type()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix, Span

from ._claims import claimed, kept_whole
from ._torch import defines_method, foreign
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_SHOWN = frozenset(["print", "format", "info", "debug", "warning", "write", "log", "error"])


class TypeText(Rule):
    """``mask.type(x.type())``, ``dtype=x.type()``."""

    code = "HPU126"
    name = "type-as-text"
    severity = "error"
    markers = (b".type()",)

    @classmethod
    def applies(cls, module: Module) -> bool:
        return b"torch" in module.data

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        func = node.func
        if (
            not isinstance(func, ast.Attribute)
            or func.attr != "type"
            or node.args
            or node.keywords
            or kept_whole(module)
            or claimed(module, node)
            or foreign(module, func)
            or defines_method(module, "type")
            or _only_looked_at(module, node)
        ):
            return
        outer = module.parent(node)
        fix = None
        if (
            isinstance(outer, ast.Call)
            and isinstance(outer.func, ast.Attribute)
            and outer.func.attr == "type"
            and outer.args == [node]
            and not outer.keywords
        ):
            name_end, value_end = module.span(outer.func).end, module.span(func.value).end
            where = Span(name_end - len("type"), name_end)
            edits = (
                module.replace(where, "to"),
                module.replace(Span(value_end, module.span(node).end), ""),
            )
            fix = Fix("convert to the tensor itself", "safe", edits)
        answer = ask(module, "torch.Tensor.type")
        yield self.finding(
            module,
            node,
            f"`{module.source(node)}` is `torch.hpu.FloatTensor` on Gaudi, which `.type()` does not take back; "
            "give `.to()` the tensor, or its dtype",
            fix=fix,
            row=answer.row,
        )


def _only_looked_at(module: Module, node: ast.Call) -> bool:
    """Is the text compared, printed or thrown away? Comparisons have a rule of their own."""
    parent = module.parent(node)
    if isinstance(parent, (ast.Compare, ast.FormattedValue, ast.Expr, ast.BinOp)):
        return True
    if isinstance(parent, ast.Attribute):
        return True
    called = getattr(parent, "func", None)
    return isinstance(parent, ast.Call) and getattr(called, "attr", getattr(called, "id", "")) in _SHOWN  # fmt: skip
