"""Device strings and devices whose index a file reads again: there, the index stays where it would go."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from hpushim.engine.python.module import Module
from hpushim.pycode.values import Values

_SPLITS = ("split", "rsplit", "partition", "rpartition")
#: Where the index starts in ``cuda:0``.
_START = len("cuda:")
IsDevice = Callable[[ast.expr], bool]


def reads_index(module: Module, is_device: IsDevice) -> bool:
    """Does the file read the index of a device that it has a name for?"""
    return any(_reads(module, is_device))


def _reads(module: Module, is_device: IsDevice) -> Iterator[bool]:
    for attribute in module.index.attributes("index"):
        called = module.parent(attribute)
        if not (isinstance(called, ast.Call) and called.func is attribute):
            yield is_device(attribute.value)
    for call in (call for name in _SPLITS for call in module.index.calls(name)):
        if isinstance(call.func, ast.Attribute) and _cuts_at_colon(module, call):
            yield is_device(call.func.value)
    for number in module.index.numbers("1"):
        sign = module.parent(number)
        last = module.parent(sign) if isinstance(sign, ast.UnaryOp) and isinstance(sign.op, ast.USub) else None  # fmt: skip
        if isinstance(last, ast.Subscript) and last.slice is sign:
            yield is_device(last.value) and not _is_list(module, last.value)  # device[-1]
    yield any(True for _ in cuts(module, is_device))
    for device in (*module.index.attributes("device"), *module.index.names("device")):
        compared = module.parent(device)
        if isinstance(compared, ast.Compare) and isinstance(compared.ops[0], (ast.Eq, ast.NotEq)):
            others = [side for side in (compared.left, *compared.comparators) if side is not device]
            yield all(is_device(side) and module.constant(side) is None for side in others)


def cuts(module: Module, is_device: IsDevice) -> Iterator[ast.Subscript]:
    """``device[5:]``: the index, counted by the letters of ``cuda:``."""
    for number in module.index.numbers(str(_START)):
        where = module.parent(number)
        cut = module.parent(where) if isinstance(where, ast.Slice) else None
        if not isinstance(cut, ast.Subscript) or not isinstance(where, ast.Slice):
            continue
        if where.lower is number and where.upper is None and is_device(cut.value):
            yield cut


def _is_list(module: Module, node: ast.expr) -> bool:
    """Does the file show a list, or parts that a text was cut into?"""
    return any(
        isinstance(origin, (ast.List, ast.Tuple, ast.ListComp, ast.Call))
        for origin in module.view(Values).origins(node)
    )


def _cuts_at_colon(module: Module, call: ast.Call) -> bool:
    """``split(":")`` of which more than the first part is used."""
    if module.constant(call.args[0] if call.args else None) not in (":", "cuda:"):
        return False
    above = module.parent(call)
    if isinstance(above, ast.Subscript) and above.value is call:
        return module.constant(above.slice) != 0
    return not isinstance(above, ast.Compare)
