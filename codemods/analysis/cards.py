"""Numbers of cards: ``rank``, ``args.gpu``, ``int(os.environ["LOCAL_RANK"])``, ``rank % device_count()``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .device_texts import read
from .names import word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_RANK = re.compile(r"(^|_)(rank|gpu|gpus|gpu_?ids?|gpu_?idx|gpu_?index|device_?ids?|dev_?id|cuda_?ids?|local_?rank)$")  # fmt: skip
_COUNTS = ("torch.cuda.device_count", "torch.hpu.device_count")


def is_card(module: Module, node: ast.expr | None) -> bool:
    """Is the expression the number of a card: an integer, or a variable named like one?"""
    if node is None:
        return False
    value = module.constant(node)
    if isinstance(value, int) and not isinstance(value, bool):
        return True
    inner = node
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    if isinstance(inner, ast.Call):
        called = module.qualified(inner.func) or ""
        last = called.rpartition(".")[2] or getattr(inner.func, "attr", "")
        return called == "torch.cuda.current_device" or bool(re.search(r"(^|_)rank$", last))
    if not _RANK.search(word(inner).lower()):
        values = module.values(node) if isinstance(node, ast.Name) else []
        return bool(values) and all(v is not node and _counts_cards(module, v) for v in values)
    for part in module.values(node):
        if read(part) is not None or isinstance(module.constant(part), str):
            return False
        if isinstance(part, ast.Call) and module.qualified(part.func) == "torch.device":
            return False
    return True


def is_other_card(module: Module, node: ast.expr) -> bool:
    """Is the expression the number of a card that is not plainly 0?"""
    return is_card(module, node) and module.constant(node) != 0


def _counts_cards(module: Module, node: ast.expr) -> bool:
    """``rank % device_count()``, ``int(os.environ["LOCAL_RANK"])``: the number of a card, whatever its name."""
    if isinstance(node, ast.Call) and module.qualified(node.func) == "torch.cuda.current_device":
        return True
    parts = list(ast.walk(node))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return any(isinstance(p, ast.Attribute) and module.qualified(p) in _COUNTS for p in parts)
    integer = isinstance(node, ast.Call) and module.qualified(node.func) == "builtins.int"
    return integer and any(isinstance(p, ast.Constant) and p.value == "LOCAL_RANK" for p in parts)
