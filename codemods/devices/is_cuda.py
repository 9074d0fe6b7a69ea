"""Tensors asked whether they are on CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix, Span

from ._claims import claimed
from ._strings import quoted
from ._torch import attribute_values, defines_method, foreign
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

#: Where `a == b` may stand without parentheses.
_LOOSE = (
    ast.If, ast.IfExp, ast.While, ast.Assert, ast.BoolOp, ast.Assign, ast.AnnAssign, ast.Return,
    ast.Expr, ast.keyword, ast.Call, ast.List, ast.Tuple, ast.Dict, ast.comprehension, ast.Lambda,
    ast.NamedExpr, ast.ListComp, ast.SetComp, ast.GeneratorExp,
)  # fmt: skip


class IsCuda(Rule):
    """``x.is_cuda``."""

    code = "HPU106"
    name = "is-cuda-attribute"
    severity = "error"
    markers = (b"is_cuda",)

    def on_Attribute(self, module: Module, node: ast.Attribute) -> Iterator[Finding]:
        if node.attr != "is_cuda" or not isinstance(node.ctx, ast.Load):
            return
        parent = module.parent(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return  # a method of that name is not a tensor's
        if foreign(module, node) or defines_method(module, "is_cuda") or claimed(module, node):
            return
        if isinstance(node.value, ast.Name) and attribute_values(module, "is_cuda"):
            return  # the file gives objects of its own such an attribute
        answer = ask(module, "torch.Tensor.is_cuda")
        stem = module.span(node.value).end
        text = f".device.type == {quoted(module, 'hpu', node)}"
        edits = [module.replace(Span(stem, module.span(node).end), text)]
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            text = text.replace("==", "!=")
            edits = [
                module.replace(Span(module.span(parent).start, module.span(node).start), ""),
                module.replace(Span(stem, module.span(node).end), text),
            ]
        elif not isinstance(parent, _LOOSE) or (
            isinstance(parent, ast.Call) and parent.func is node
        ):
            edits = [module.replace(node, f"({module.source(node.value)}{text})")]
        yield self.finding(
            module,
            node,
            f"`{module.source(node)}` is False for tensors on Gaudi; ask for the device's type",
            fix=Fix("ask for the device's type", answer.safety, tuple(edits)),
            row=answer.row,
        )
