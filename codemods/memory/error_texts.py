"""What an error of CUDA says: handlers that look for its text never run on Gaudi."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding

from ._claims import kept_whole
from ._verdict import ask, inside

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_TEXTS = (
    "out of memory",
    "cuda error",
    "cublas_",
    "cudnn_status",
    "nccl error",
    "device-side assert",
)
_METHODS = ("find", "count", "startswith", "index", "__contains__")


class ErrorText(Rule):
    """``if "CUDA out of memory" in str(e):``."""

    code = "HPU420"
    name = "cuda-error-text"
    markers = (b"out of memory", b"CUDA error", b"CUBLAS_", b"CUDNN_STATUS", b"NCCL error", b"device-side assert")  # fmt: skip

    def on_Constant(self, module: Module, node: ast.Constant) -> Iterator[Finding]:
        if not isinstance(node.value, str) or len(node.value) > 80 or kept_whole(module):
            return
        if not any(text in node.value.lower() for text in _TEXTS) or not _looked_for(module, node):
            return
        answer = ask(module, "the text of an out-of-memory error")
        yield self.finding(
            module,
            node,
            f"`{module.source(node)}` is what CUDA says; {inside(answer.note)}",
            row=answer.row,
        )


def _looked_for(module: Module, node: ast.Constant) -> bool:
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
