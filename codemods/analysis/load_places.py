"""Checkpoints that load to the CPU without CUDA, and with CUDA to the device that they were saved from.

On Gaudi that device does not exist for a checkpoint of CUDA: the half that names no place has to name ``hpu``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from hpushim.engine.python.module import Module
from hpushim.pycode.values import At, Cell, How, Values
from hpushim.pycode.walk import walk

from ..edits.arguments import argument
from ..edits.at_hand import unwrapped
from ..edits.spelling import ACCELERATOR
from .device_texts import device_name
from .names import is_none, word

#: Functions that read a checkpoint, with the position of the place.
LOADS = {"torch.load": 1, "torch.jit.load": 1, "torch.hub.load_state_dict_from_url": 2}
_PLACE = "map_location"
#: What a test that chooses between CUDA and the CPU mentions.
_ABOUT = re.compile(r"cuda|gpu|cpu|device|is_available", re.I)
_ENDS = (ast.Return, ast.Raise, ast.Continue)


def unplaced(module: Module, call: ast.Call, position: int = 1) -> Iterator[ast.expr]:
    """The half without a place of a choice whose other half loads to the CPU: ``None``, a table without one, or the load itself."""
    place = argument(call, _PLACE, position)
    if place is not None:
        yield from halves(module, place)
        return
    tables = [keyword.value for keyword in call.keywords if keyword.arg is None]
    for table in tables:
        yield from _tables(module, table)
    if not tables and len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
        yield from _beside(module, call)


def only_loads(module: Module, node: ast.expr) -> bool:
    """Does the place go nowhere but into loads?"""
    return _goes_only(module, node, _is_place)


def only_copied(module: Module, call: ast.Call) -> bool:
    """Does what is loaded only go into ``load_state_dict``, which copies it onto the device of what it fills?"""
    return _goes_only(module, call, _is_copied, frozenset(["taken"]))


def makes_tensor(module: Module, call: ast.Call) -> ast.Call | None:
    """The ``torch.from_numpy`` that is given what is loaded, which then is an array: it lies on no device."""
    values, takers = module.view(Values), module.index.calls("from_numpy")
    for edge in values.reach(call, values.uses) if takers else ():
        if edge.how == "passed" and edge.node in takers and module.qualified(edge.node.func) == "torch.from_numpy":  # fmt: skip
            return edge.node
    return None


def _goes_only(
    module: Module,
    node: ast.expr,
    is_end: Callable[[Module, object, object], bool],
    beside: frozenset[How] = frozenset(),
) -> bool:
    """Is a value, or what is read from it along ``beside``, passed to such calls alone, and to one at least?"""
    values, found = module.view(Values), False
    todo = [At(node)]
    for at in todo:  # grows
        for edge in values.uses(at):
            if isinstance(edge.node, Cell) and edge.node.kind != "variable":
                return False  # who reads it may be in another file
            if edge.same or edge.how in beside:
                todo += [edge.at] if edge.at not in todo else []
            elif edge.how == "passed" and is_end(module, edge.node, at.node):
                found = True
            else:
                return False
    return found


def _is_place(module: Module, call: object, node: object) -> bool:
    """Does a load get ``node`` as its place?"""
    above = module.parent(call) if isinstance(call, ast.keyword) else call
    position = (
        LOADS.get(module.qualified(above.func) or "") if isinstance(above, ast.Call) else None
    )
    return position is not None and argument(above, _PLACE, position) is node  # type: ignore[arg-type]


def is_host(module: Module, node: ast.AST | None) -> bool:
    """Is the place the CPU: ``"cpu"``, ``torch.device("cpu")``, ``lambda storage, loc: storage``?"""
    if isinstance(node, ast.Lambda):
        given = [arg.arg for arg in node.args.args]
        return len(given) == 2 and isinstance(node.body, ast.Name) and node.body.id == given[0]
    return isinstance(node, ast.expr) and module.constant(unwrapped(module, node)) == "cpu"


def _is_copied(_: Module, call: object, node: object) -> bool:
    """Is it the argument of ``x.load_state_dict(…)``?"""
    return (
        isinstance(call, ast.Call)
        and node in call.args[:1]
        and word(call.func) == "load_state_dict"
        and all(keyword.arg == "strict" for keyword in call.keywords)
    )


# -- a place that is chosen -----------------------------------------------------------------


def halves(module: Module, place: ast.expr) -> Iterator[ast.expr]:
    """``map_location=None if torch.cuda.is_available() else "cpu"``, also through names and statements."""
    if isinstance(place, ast.IfExp) and _ABOUT.search(module.source(place.test)):
        for half, other in ((place.body, place.orelse), (place.orelse, place.body)):
            # `else device`, which is where everything else goes
            if is_none(half) and isinstance(other, (ast.Name, ast.Attribute)) and device_name(word(other)):  # fmt: skip
                yield half
                return
    values = module.values(place)
    if any(is_host(module, value) and _is_about_cuda(module, value) for value in values):
        for value in values:
            # None as a default may be requested.
            default = isinstance(module.parent(value), ast.arguments)
            if is_none(value) and not default and not _is_for_both(module, value):
                yield value


def _tables(module: Module, table: ast.expr) -> Iterator[ast.expr]:
    """``torch.load(path, **({} if torch.cuda.is_available() else {"map_location": "cpu"}))``."""
    values = [value for value in module.values(table) if isinstance(value, ast.Dict)]
    full = next((value for value in values if _host_in(module, value)), None)
    if full is None or not _is_about_cuda(module, full):
        return
    for value in values:
        for key, place in zip(value.keys, value.values, strict=True):
            if module.constant(key) == _PLACE and is_none(place):
                yield place
        if not value.keys and not _is_for_both(module, value):
            yield value


def _host_in(module: Module, table: ast.Dict) -> bool:
    pairs = zip(table.keys, table.values, strict=True)
    return any(module.constant(key) == _PLACE and is_host(module, value) for key, value in pairs)


def _is_for_both(module: Module, value: ast.expr) -> bool:
    """Is it what the dual style leaves to CUDA?"""
    choice = module.parent(value)
    return isinstance(choice, ast.IfExp) and ACCELERATOR in module.source(choice.test)


# -- two loads of which one is chosen -------------------------------------------------------


def _beside(module: Module, call: ast.Call) -> Iterator[ast.expr]:
    """``torch.load(path)`` with ``torch.load(path, map_location="cpu")`` in the other branch."""
    for child, above in module.upwards(call):
        if (
            isinstance(above, (ast.IfExp, ast.If))
            and child is not above.test
            and _loads_to_host(module, _other_half(above, child))
            and _ABOUT.search(module.source(above.test))
        ):
            yield call
            return
        if isinstance(child, ast.stmt):
            for earlier in _left_early(module, child):
                if _loads_to_host(module, earlier.body) and _ABOUT.search(module.source(earlier.test)):  # fmt: skip
                    yield call
                    return
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return


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


def _loads_to_host(module: Module, parts: list[ast.AST] | list[ast.stmt]) -> bool:
    """Is one of the nodes a load to the CPU, or holds one?"""
    return any(
        isinstance(inner, ast.Call)
        and (module.qualified(inner.func) or "") in LOADS
        and is_host(module, argument(inner, _PLACE, 1))
        for part in parts
        for inner in walk(part)
    )


def _is_about_cuda(module: Module, node: ast.expr) -> bool:
    """Does a test about CUDA decide whether ``node`` counts?"""
    for child, above in module.upwards(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return False
        if isinstance(above, (ast.IfExp, ast.If)) and child is not above.test:
            return _ABOUT.search(module.source(above.test)) is not None
    return False
