"""What ends a graph inside the forward pass of a model."""

from __future__ import annotations

import ast

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.kinds import is_module_class
from ..analysis.names import called, word
from ..analysis.verdict import ask
from ..values.marks import MARKS

_READS = ("item", "tolist")
#: Methods of tensors with one value, which a branch on them brings to the host.
_TRUTHS = ("any", "all", "sum", "max", "min", "mean", "isnan", "isinf", "equal", "allclose")
_RECURRENT = ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")
_ROW = "graph breaks in torch.compile"


class GraphBreaks(Rule):
    """``x.item()``, ``print(x)``, ``if x.any():`` in ``forward``."""

    HPU531 = Code("graph-break-in-forward", severity="note", effort="hours", effect="speed")
    also = Wants(
        calls=(*_READS, *MARKS, "print"), names=_RECURRENT, words=_TRUTHS, required=("forward",)
    )

    def __init__(self) -> None:
        #: The tests of which something is reported already.
        self._reported: set[ast.expr] = set()

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        if module.target.mode != "compile" or not _in_forward(module, node):
            return
        named = word(node.func)
        method = isinstance(node.func, ast.Attribute)
        if (
            named == "print"
            if not method
            else (named in MARKS or (named in _READS and not node.args))
        ):
            test = _decides(module, node)
            if test is not None:
                self._reported.add(test)
            yield self.finding(
                node,
                f"`{module.source(node.func)}` in `forward` breaks the graph of torch.compile; move "
                "it out of compiled code, or switch it off in training",
                row=ask(module, _ROW).row,
            )

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """``self.lstm = nn.LSTM(…)``."""
        if module.target.mode == "compile" and called(module, node) is not None:
            yield self.finding(
                node,
                f"`{module.source(node)}` breaks the graph of torch.compile; set "
                "`torch._dynamo.config.allow_rnn = True` to include it",
                row=ask(module, _ROW).row,
            )

    def on_module(self, module: Module) -> Yield:
        if module.target.mode != "compile":
            return
        for name in _TRUTHS:
            for call in module.index.calls(name):
                test = _decides(module, call)
                if test is not None and test not in self._reported and _in_forward(module, call):
                    self._reported.add(test)
                    yield self.finding(
                        test,
                        "a branch on a tensor's value breaks the graph of torch.compile; use `torch.where` "
                        "or `torch.cond`",
                        row=ask(module, _ROW).row,
                    )


def _in_forward(module: Module, node: ast.AST) -> bool:
    """Does it run whenever the forward pass of a module of this file does?"""
    for above in module.ancestors(node):
        if isinstance(above, (ast.FunctionDef, ast.Lambda)):
            owner = module.parent(above)
            return (
                getattr(above, "name", "") == "forward"
                and isinstance(owner, ast.ClassDef)
                and is_module_class(module, owner)
            )
    return False


def _decides(module: Module, call: ast.Call) -> ast.expr | None:
    """The test that the value of a tensor's method, or of torch's function, decides."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        return None
    name = module.qualified(func) or ""
    if name.split(".", maxsplit=1)[0] not in ("", "torch") or (not name and call.args):
        return None
    for child, above in module.upwards(call):
        if isinstance(above, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            return above.test if child is above.test else None
        if not isinstance(above, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Attribute)) and not (
            isinstance(above, ast.Call) and above.func is child
        ):
            return None
    return None
