"""Whether a typed tensor is made of sizes or of data: ``FloatTensor(3, 4)`` or ``FloatTensor([3, 4])``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .names import word
from .tensor_types import DTYPES

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_DEPTH = 4
_COUNTS = frozenset(["builtins.len", "builtins.int", "builtins.round", "math.ceil", "math.floor", "math.prod", "torch.cuda.device_count"])  # fmt: skip
_SIZES = frozenset(["size", "shape", "Size"])
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow)
#: What may be done to a tensor before it is moved, without a number drawn or looked at.
_FILLS = frozenset(["zero_", "fill_", "resize_"])


def of_sizes(module: Module, call: ast.Call) -> bool:
    """Are the arguments of a typed tensor's class sizes, beyond doubt? A single name may hold either."""
    if call.keywords or not call.args:
        return False
    if len(call.args) > 1:
        return True
    (only,) = call.args
    if isinstance(only, ast.Starred):
        return _is_shape(only.value)
    return _is_shape(only) or _is_integer(module, only, _DEPTH)


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


def _is_shape(node: ast.expr) -> bool:
    """``x.size()``, ``x.shape``, ``torch.Size(…)``, and a slice of one."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and _is_shape(node.value)
    if isinstance(node, ast.Call):
        asked = node.func
        return word(asked) in _SIZES and (word(asked) == "Size" or not node.args)
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _is_integer(module: Module, node: ast.expr, depth: int) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Subscript):
        return _is_shape(node.value) and not isinstance(node.slice, ast.Slice)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        return all(_is_integer(module, side, depth) for side in (node.left, node.right))
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in ("size", "numel", "dim", "item"):
            return func.attr != "size" or bool(node.args)
        return (module.qualified(func) or "") in _COUNTS
    if isinstance(node, ast.Name) and depth:
        values = [value for value in module.values(node) if value is not node]
        return bool(values) and all(_is_integer(module, value, depth - 1) for value in values)
    return False
