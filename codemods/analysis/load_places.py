"""Checkpoints that go to the CPU where CUDA is not, and back to where they were saved where it is.

The second half of the choice is wrong on Gaudi: a file that was written on CUDA has no place there to go back to.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpushim.pycode.walk import walk

from ..edits.arguments import argument
from ..edits.spelling import ACCELERATOR
from .device_texts import device_name
from .names import is_none, word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Functions that read a checkpoint, with the position of the place.
LOADS = {"torch.load": 1, "torch.jit.load": 1}
_PLACE = "map_location"
#: What a test that chooses between CUDA and the CPU speaks of.
_ABOUT = re.compile(r"cuda|gpu|cpu|device|is_available", re.I)
_ENDS = (ast.Return, ast.Raise, ast.Continue)


@dataclass(frozen=True, eq=False)
class Unplaced:
    """One half of such a choice, and how the other half names the CPU.

    ``node`` is ``None`` as a place, a table without one, or a load that names none; ``choice`` the conditional expression
    whose halves are equal when this one is put right, None where there is no such expression.
    """

    node: ast.expr
    host: ast.expr
    choice: ast.IfExp | None = None


def unplaced(module: Module, call: ast.Call, position: int = 1) -> Iterator[Unplaced]:
    """What a call of ``torch.load`` leaves where it was saved, although the file sends it to the CPU where there is no CUDA."""
    place = argument(call, _PLACE, position)
    if place is not None:
        yield from halves(module, place)
        return
    tables = [keyword.value for keyword in call.keywords if keyword.arg is None]
    for table in tables:
        yield from _tables(module, table)
    if not tables and len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
        yield from _beside(module, call)


def is_host(module: Module, node: ast.AST | None) -> bool:
    """Is the place the CPU: ``"cpu"``, ``torch.device("cpu")``, ``lambda storage, loc: storage``?"""
    if isinstance(node, ast.Lambda):
        given = [arg.arg for arg in node.args.args]
        return len(given) == 2 and isinstance(node.body, ast.Name) and node.body.id == given[0]
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return module.qualified(node.func) == "torch.device" and is_host(module, node.args[0])
    return isinstance(node, ast.Constant) and node.value == "cpu"


# -- a place that is chosen -----------------------------------------------------------------


def halves(module: Module, place: ast.expr) -> Iterator[Unplaced]:
    """``map_location=None if torch.cuda.is_available() else "cpu"``, also through names and statements."""
    if isinstance(place, ast.IfExp) and _ABOUT.search(module.source(place.test)):
        for half, other in ((place.body, place.orelse), (place.orelse, place.body)):
            # `else device`, which is where everything else goes
            if is_none(half) and isinstance(other, (ast.Name, ast.Attribute)) and device_name(word(other)):  # fmt: skip
                yield Unplaced(half, other, place)
                return
    values = module.values(place)
    host = next((value for value in values if is_host(module, value)), None)
    if host is None or not _is_about_cuda(module, host):
        return
    for value in values:
        if is_none(value):
            above = module.parent(value)
            # None as a default may be asked for.
            if not isinstance(above, ast.arguments) and not _is_for_both(module, value):
                yield Unplaced(value, host, _equal(module, value))


def _tables(module: Module, table: ast.expr) -> Iterator[Unplaced]:
    """``torch.load(path, **({} if torch.cuda.is_available() else {"map_location": "cpu"}))``."""
    values = [value for value in module.values(table) if isinstance(value, ast.Dict)]
    full = next((value for value in values if _host_in(module, value) is not None), None)
    if full is None or not _is_about_cuda(module, full):
        return
    for value in values:
        for key, place in zip(value.keys, value.values, strict=True):
            if module.constant(key) == _PLACE and is_none(place):
                yield Unplaced(place, _host_in(module, full) or full)
        if not value.keys and not _is_for_both(module, value):
            yield Unplaced(value, full, _equal(module, value))


def _host_in(module: Module, table: ast.Dict) -> ast.expr | None:
    for key, value in zip(table.keys, table.values, strict=True):
        if module.constant(key) == _PLACE and is_host(module, value):
            return value
    return None


def _is_for_both(module: Module, value: ast.expr) -> bool:
    """Is it what the dual style leaves to CUDA?"""
    choice = module.parent(value)
    return isinstance(choice, ast.IfExp) and ACCELERATOR in module.source(choice.test)


def _equal(module: Module, value: ast.expr) -> ast.IfExp | None:
    """The choice between ``value`` and a half that goes to the CPU."""
    choice = module.parent(value)
    if not isinstance(choice, ast.IfExp) or value is choice.test:
        return None
    other = choice.orelse if value is choice.body else choice.body
    table = isinstance(other, ast.Dict) and _host_in(module, other) is not None
    return choice if table or is_host(module, other) else None


# -- two loads of which one is chosen -------------------------------------------------------


def _beside(module: Module, call: ast.Call) -> Iterator[Unplaced]:
    """``torch.load(path)`` with ``torch.load(path, map_location="cpu")`` in the other branch."""
    child: ast.AST = call
    for above in module.ancestors(call):
        if isinstance(above, (ast.IfExp, ast.If)) and child is not above.test:
            host = _host_of_load(module, _other_half(above, child))
            if host is not None and _ABOUT.search(module.source(above.test)):
                same = isinstance(above, ast.IfExp) and child is call
                yield Unplaced(call, host, above if same else None)  # type: ignore[arg-type]
                return
        if isinstance(child, ast.stmt):
            for earlier in _left_early(module, child):
                host = _host_of_load(module, earlier.body)
                if host is not None and _ABOUT.search(module.source(earlier.test)):
                    yield Unplaced(call, host)
                    return
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return
        child = above


def _other_half(choice: ast.IfExp | ast.If, child: ast.AST) -> list[ast.AST]:
    if isinstance(choice, ast.IfExp):
        return [choice.orelse if child is choice.body else choice.body]
    inside = any(statement is child for statement in choice.body)
    return [*(choice.orelse if inside else choice.body)]


def _left_early(module: Module, statement: ast.stmt) -> Iterator[ast.If]:
    """The ``if … : return`` in front of a statement, in its block."""
    for earlier in module.block(statement):
        if earlier is statement:
            return
        if isinstance(earlier, ast.If) and not earlier.orelse and isinstance(earlier.body[-1], _ENDS):  # fmt: skip
            yield earlier


def _host_of_load(module: Module, parts: list[ast.AST] | list[ast.stmt]) -> ast.expr | None:
    """How a load among some nodes names the CPU."""
    for part in parts:
        for inner in walk(part):
            if isinstance(inner, ast.Call) and (module.qualified(inner.func) or "") in LOADS:
                place = argument(inner, _PLACE, 1)
                if is_host(module, place):
                    return place
    return None


def _is_about_cuda(module: Module, node: ast.expr) -> bool:
    """Does a test about CUDA decide whether ``node`` counts?"""
    child: ast.AST = node
    for above in module.ancestors(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return False
        if isinstance(above, (ast.IfExp, ast.If)) and child is not above.test:
            return _ABOUT.search(module.source(above.test)) is not None
        child = above
    return False
