"""Whether a typed tensor is made of sizes or of data: ``FloatTensor(3, 4)`` or ``FloatTensor([3, 4])``."""

from __future__ import annotations

import ast

from hpushim.engine.python.module import Module

from ..analysis.tensor_types import DTYPES
from .tensors import is_count

#: What may be done to a tensor before it is moved, without a number drawn or looked at.
_FILLS = frozenset(["zero_", "fill_", "resize_"])


def of_sizes(module: Module, call: ast.Call) -> bool:
    """Are the arguments of a typed tensor's class sizes, beyond doubt? A single name may hold either."""
    if call.keywords or not call.args:
        return False
    if len(call.args) > 1:
        return True
    (only,) = call.args
    return is_count(module, only.value if isinstance(only, ast.Starred) else only)


def made_on_the_host(module: Module, receiver: ast.expr) -> ast.Call | None:
    """The call of ``torch.FloatTensor(n)``, whose memory nothing has been written to but by a fill, in ``receiver``."""
    node = receiver
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if host_kind(module, node.func):
            return node if of_sizes(module, node) else None
        if node.func.attr not in _FILLS:
            return None
        node = node.func.value
    return None


def host_kind(module: Module, func: ast.expr) -> str:
    """``FloatTensor`` for ``torch.FloatTensor``; "" for others."""
    kind = (module.qualified(func) or "").removeprefix("torch.")
    return kind if kind in DTYPES else ""
