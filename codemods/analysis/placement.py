"""Whether a file puts anything on a device."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .names import word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_DEVICE = re.compile(r"(cuda|hpu|gpu)(:\d+)?")
_LABEL = re.compile(r"dev|gpu|rank", re.I)


def is_on_device(module: Module) -> bool:
    """Does the file put anything on a device that is not surely the CPU?"""
    index = module.index
    return (
        any(index.attributes(name) for name in ("cuda", "is_cuda", "hpu"))
        or any(
            _DEVICE.fullmatch(str(string.value))
            for device in ("cuda", "hpu", "gpu")
            for string in index.strings(device)
        )
        or any(_may_be_device(module, keyword.value) for keyword in index.keywords("device"))
        or any(
            isinstance(call.func, ast.Attribute)
            and bool(call.args)
            and _may_be_device(module, call.args[0])
            for call in index.calls("to")
        )
    )


def _may_be_device(module: Module, node: ast.expr) -> bool:
    """Is ``node`` something called a device whose value the file does not fix?"""
    for value in module.values(node):
        if _LABEL.search(word(value.left if isinstance(value, ast.BinOp) else value)):
            return True
        if (
            isinstance(value, ast.Call)
            and value.args
            and module.qualified(value.func) == "torch.device"
            and module.constant(value.args[0]) is None
        ):
            return True
    return False
