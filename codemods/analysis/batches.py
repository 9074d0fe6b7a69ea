"""Batches in training loops: which of their parts are moved to the device before a model is called with them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpushim.engine.python.module import Module, once
from hpushim.pycode.places import TRIES
from hpushim.pycode.walk import mentions, walk

from .names import word, words_with

_HELPER = re.compile(r"cuda|device|gpu|move|put", re.I)
_LOADER = re.compile(r"prefetch|cuda|device|gpu", re.I)
#: Methods that give no tensor, or one on the host.
_NUMBERS = frozenset(["size", "dim", "numel", "item", "tolist", "numpy", "cpu", "keys", "values", "items", "get", "pop"])  # fmt: skip
#: Methods that give what a dictionary holds.
_VIEWS = frozenset(["items", "values"])
_KEEPING = ("builtins.tuple", "builtins.list", "builtins.dict", "builtins.zip", "builtins.sorted")
_WRAPPERS = ("Variable", "tuple", "list", "dict")


@dataclass
class Loop:
    """One loop over batches. Moves are ``always`` made, or only ``sometimes`` (when a device was named)."""

    node: ast.For
    parts: set[str] = field(default_factory=set)
    always: set[str] = field(default_factory=set)
    sometimes: set[str] = field(default_factory=set)
    #: Where the parts go: the expression of the first ``.to(device)``.
    device: ast.expr | None = None
    #: Calls with parts as arguments, and the parts that had not been moved by then.
    calls: list[tuple[ast.Call, list[ast.expr]]] = field(default_factory=list)


def loops(module: Module) -> list[Loop]:
    """Every ``for`` loop of the file that moves something, as read from its top to its end."""
    return [loop_at(module, node) for node in module.index.statements(ast.For)]


def loop_at(module: Module, node: ast.For) -> Loop:
    """One of them; each is read once."""
    known = module.view(_known)
    if node not in known:
        parts = {part.id for part in walk(node.target) if isinstance(part, ast.Name)}
        known[node] = Loop(node, parts)
        _block(module, known[node], node.body, sure=True)
    return known[node]


def _known(module: Module) -> dict[ast.For, Loop]:
    return {}


def _block(module: Module, loop: Loop, body: list[ast.stmt], sure: bool) -> None:
    for statement in body:
        if isinstance(statement, ast.If):
            named = any(isinstance(part, ast.IsNot) for part in walk(statement.test))
            _block(module, loop, statement.body, sure and not named)
            _block(module, loop, statement.orelse, sure)
        elif isinstance(statement, (ast.With, ast.AsyncWith, *TRIES, ast.For, ast.While)):
            _block(module, loop, statement.body, sure)
        elif isinstance(
            statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
        ):
            _simple(module, loop, statement, sure)


def _simple(module: Module, loop: Loop, statement: ast.stmt, sure: bool) -> None:
    _calls(module, loop, statement)
    if isinstance(statement, ast.Expr):
        _in_place(loop, statement.value, sure)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        for one, value in _pairs(target, statement.value):
            _assigned(module, loop, one, value, sure)


def _in_place(loop: Loop, value: ast.expr, sure: bool) -> None:
    """``load_data_to_gpu(batch)``: a function that is named for a move and whose result nobody takes moves what is in the batch."""
    if isinstance(value, ast.Call) and _HELPER.search(word(value.func)):
        given = {part.id for part in value.args if isinstance(part, ast.Name)} & loop.parts
        loop.always.update(given if sure else ())
        loop.sometimes.update(() if sure else given)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        for place, one in enumerate(target.elts):
            yield from _pairs(one, value.elts[place] if same else value)  # type: ignore[attr-defined]
    else:
        yield target, value


def _assigned(module: Module, loop: Loop, target: ast.expr, value: ast.expr, sure: bool) -> None:
    name = _root(target)
    if name is None:
        return
    move = moved(module, value)
    if move is not None:
        loop.parts.add(name)
        (loop.always if sure else loop.sometimes).add(name)
        loop.device = loop.device or _device(move)
    elif not isinstance(target, ast.Name):
        return
    elif (source := _part(_converted(value))) in loop.parts and source is not None:
        loop.parts.add(name)
        if source in loop.always:
            loop.always.add(name)
        elif name != source:
            loop.always.discard(name)
    elif name in loop.parts and (not mentions(value, name) or _prepared(module, loop, value)):
        loop.parts.discard(name)  # something else has taken the name, or may have moved it


def _prepared(module: Module, loop: Loop, value: ast.expr) -> bool:
    """Does the part come from a function that is not torch's, which may move it as well?"""
    if not isinstance(value, ast.Call) or _part(value) is not None:
        return False
    root = _root(value.func)
    name = module.qualified(value.func) or ""
    return (
        root not in loop.parts
        and not name.startswith(("torch.", "numpy."))
        and name not in _KEEPING
    )


def loader_moves(module: Module, loop: Loop) -> bool:
    """Is what the loop goes over made with a device, or by a function that is named for one?"""
    if module.view(_prefetches):
        return True
    for name in walk(loop.node.iter):
        for value in module.values(name) if isinstance(name, ast.Name) else ():
            if isinstance(value, ast.Call):
                names = [word(value.func), *(k.arg or "" for k in value.keywords)]
                if any(_LOADER.search(each) for each in names if not each.startswith("pin_")):
                    return True
    return False


def _prefetches(module: Module) -> bool:
    """Does the file request a loader that brings batches to the device: ``create_loader(…, use_prefetcher=True)``?"""
    words = words_with(module, "prefetcher")
    return any(module.index.keywords(written) for written in sorted(words))


@once
def moved(module: Module, value: ast.expr) -> ast.Call | None:
    """The call inside ``value`` that moves to a device, by itself or through a function named for it."""
    if isinstance(value, (ast.Name, ast.Constant)):
        return None
    return next((p for p in walk(value) if isinstance(p, ast.Call) and _moves_by(module, p)), None)


def _moves_by(module: Module, call: ast.Call) -> bool:
    called = word(call.func)
    if called == "cuda" or (called == "to" and _to_device(module, call)):
        return True
    return called != "to" and bool(_HELPER.search(called) and call.args)


def _to_device(module: Module, call: ast.Call) -> bool:
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
    if not given:
        return False
    text = module.constant(given[0])
    if isinstance(text, str):
        return text.startswith(("cuda", "hpu"))
    name = module.qualified(given[0]) or ""
    return not name.startswith("torch.")


def _device(move: ast.Call) -> ast.expr | None:
    if getattr(move.func, "attr", "") != "to" or not move.args:
        return None
    return move.args[0] if isinstance(move.args[0], (ast.Name, ast.Attribute)) else None


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _part(value: ast.expr) -> str | None:
    """The batch that ``value`` is a part of: ``batch[0]``, ``Variable(batch)``, ``{key: batch[key][rows] for key in batch}``."""
    while True:
        if isinstance(value, (ast.Subscript, ast.Attribute)):
            value = value.value
        elif isinstance(value, ast.Call) and len(value.args) == 1 and _wraps(value):
            value = _converted(value.args[0])
        elif isinstance(value, (ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            value = _taken(value)
        else:
            return value.id if isinstance(value, ast.Name) else None


def _taken(made: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> ast.expr:
    """What the elements of a comprehension are taken from: a loop's own name is a part of what it goes over."""
    element = _converted(made.value if isinstance(made, ast.DictComp) else made.elt)
    name = _part(element)
    for loop in reversed(made.generators):
        if name in {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}:
            over = loop.iter
            if (
                isinstance(over, ast.Call)
                and isinstance(over.func, ast.Attribute)
                and over.func.attr in _VIEWS
            ):
                over = over.func.value
            element, name = over, _part(over)
    return element


def _converted(value: ast.expr) -> ast.expr:
    """``images`` of ``images.float().view(4, -1)``, which stays where that is."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr not in _NUMBERS
        and not _wraps(value)
    ):
        value = value.func.value
    return value


def _wraps(call: ast.Call) -> bool:
    return word(call.func) in _WRAPPERS


def _calls(module: Module, loop: Loop, statement: ast.stmt) -> None:
    """Takes note of the calls in a simple statement, those around others first."""
    for call, of in _given(module, statement):
        parts = [a for a in of if of[a] in loop.parts or moved(module, a) is not None]
        if parts:
            left = [a for a in parts if of[a] not in loop.always and moved(module, a) is None]
            loop.calls.append((call, left))


@once
def _given(_: Module, statement: ast.stmt) -> list[tuple[ast.Call, dict[ast.expr, str | None]]]:
    """The calls of a statement, with what each is given and the batch that it may be a part of: a statement is in loops around loops."""
    return [
        (call, {a: _part(_converted(a)) for a in _arguments(call)})
        for call in walk(statement)
        if isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute))
    ]


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    for arg in call.args:
        yield arg.value if isinstance(arg, ast.Starred) else arg
    for keyword in call.keywords:
        yield keyword.value
