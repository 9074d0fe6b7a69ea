"""What an error of CUDA says: handlers that look for its text never run on Gaudi."""

from __future__ import annotations

import ast

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.verdict import ask, inside

_TEXTS = ("out of memory", "CUDA error", "cuda error", "CUBLAS_", "CUDNN_STATUS", "NCCL error", "nccl error", "device-side assert")  # fmt: skip
_METHODS = ("find", "count", "startswith", "index", "__contains__")
#: A longer text is no part of an error's.
_LONGEST = 80


class ErrorText(Rule):
    """``if "CUDA out of memory" in str(e):``."""

    HPU420 = Code("cuda-error-text")
    wants = Wants(strings=_TEXTS)

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        if len(str(node.value)) > _LONGEST or not _is_looked_for(module, node):
            return
        answer = ask(module, "the text of an out-of-memory error")
        yield self.finding(
            node,
            f"`{module.source(node)}` is the text of a CUDA error; {inside(answer.note)}",
            row=answer.row,
        )


def _is_looked_for(module: Module, node: ast.Constant) -> bool:
    """Is the text compared with an error's, and not written?"""
    parent = module.parent(node)
    if isinstance(parent, ast.Compare):
        return True
    return (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Attribute)
        and parent.func.attr in _METHODS
        and node in parent.args
    )
