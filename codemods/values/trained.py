"""Models that a file trains, and where each of them is on the device and not yet wrapped for several devices."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpushim.engine.python.module import Module

from ..analysis.device_numbers import is_device_number
from ..analysis.kinds import enclosing_class
from ..analysis.names import word
from ..analysis.placement import may_be_device
from .optimized import is_plain, optimized, origins

#: The reason where no move is seen at all.
NOT_SEEN = "the place that moves it to the device is not known"
#: Methods that give the module itself, between the model and its move.
_SELVES = frozenset(["to", "cuda", "hpu", "train", "eval", "float", "bfloat16", "half", "requires_grad_"])  # fmt: skip
DDP = "DistributedDataParallel"
FSDP = "FullyShardedDataParallel"
#: Wrappers whose argument is the model that computes.
_WRAPPERS = re.compile(rf"(^|\.)({DDP}|{FSDP}|DataParallel)$")
_NEUTRAL = re.compile(r"(^|\.)convert_sync_batchnorm$")
_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(eq=False)
class Trained:
    """A model under the name, or the attribute of ``self``, that an optimizer gets it by."""

    #: As it is written: ``model``, ``self.net``.
    text: str
    #: Where the optimizer gets it.
    at: ast.expr
    #: Statements behind which it is on the device, one on each path through the file.
    places: list[ast.stmt] = field(default_factory=list)
    #: Why no place is proved, in words; empty where one is.
    reason: str = ""
    #: The wrappers that it is put into behind those places.
    wrappers: set[str] = field(default_factory=set)
    compiled: bool = False
    #: It is made of a class of torch's own, whose code `Module.compile` leaves alone.
    of_torch: bool = False


def trained(module: Module) -> list[Trained]:
    """The models of the file that an optimizer gets, in the order of the optimizers."""
    found: dict[object, Trained] = {}
    for node in optimized(module):
        for inner in origins(module, node):
            inner = _inside_wrapper(module, inner)
            key = _identity(module, inner)
            if key not in found:
                found[key] = _assessed(module, inner, node)
    return list(found.values())


def _inside_wrapper(module: Module, node: ast.expr) -> ast.expr:
    """``model`` for ``ddp_model`` that is made with ``DDP(model)``."""
    if isinstance(node, ast.Name):
        values = [b.value for b in module.bindings(node) if b.value is not None]
        if len(values) == 1 and isinstance(values[0], ast.Call) and values[0].args:
            inner = values[0].args[0]
            if _wrapper(module, values[0]) and is_plain(inner) and word(inner) != node.id:
                return inner
    return node


def _wrapper(module: Module, call: ast.AST | None) -> str:
    """The last word of the wrapper that ``call`` makes; "" for any other call."""
    if not isinstance(call, ast.Call):
        return ""
    found = _WRAPPERS.search(module.qualified(call.func) or "")
    return found[2] if found else ""


# -- where it is ----------------------------------------------------------------------------


def _identity(module: Module, node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        return node.id, id(module.bindings(node))
    return module.source(node), enclosing_class(module, node)


def _occurrences(module: Module, node: ast.expr) -> Iterator[ast.expr]:
    """Every place of the file that says the same model, in source order."""
    key = _identity(module, node)
    same = (
        module.index.names(node.id)
        if isinstance(node, ast.Name)
        else module.index.attributes(word(node))
    )
    yield from (other for other in same if is_plain(other) and _identity(module, other) == key)


def _assessed(module: Module, model: ast.expr, at: ast.expr) -> Trained:
    """The model with its places, or with the reason why none is proved."""
    found = Trained(module.source(model), at)
    if isinstance(model, ast.Subscript):
        found.reason = "it is one of several in a container"
        return found
    moves: dict[ast.stmt, bool] = {}  # with whether the model is made there
    wraps: list[ast.stmt] = []
    for node in _occurrences(module, model):
        _look(module, node, found, moves, wraps)
    if not found.reason:
        _choose(module, found, moves, wraps)
    return found


def _look(
    module: Module,
    node: ast.expr,
    found: Trained,
    moves: dict[ast.stmt, bool],
    wraps: list[ast.stmt],
) -> None:
    """Takes down what one occurrence says."""
    statement, parent = module.statement(node), module.parent(node)
    call = module.parent(parent) if isinstance(parent, ast.Attribute) else parent
    if isinstance(call, ast.Call) and (
        module.qualified(call.func) == "torch.compile"
        or (isinstance(parent, ast.Attribute) and parent.attr == "compile")
    ):
        found.compiled = True
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        _stored(module, node, statement, found, moves)
    elif isinstance(statement, ast.Expr) and _moved(module, statement.value, node):
        moves[statement] = False
    wrapper = next(
        (
            w
            for a in module.ancestors(node)
            if isinstance(a, ast.expr) and (w := _wrapper(module, a))
        ),
        "",
    )
    if wrapper:
        wraps.append(statement)
        found.wrappers.add(wrapper)
        if not _wrapper(module, parent):
            found.reason = f"line {statement.lineno} moves or changes it inside `{wrapper}(…)`"


def _stored(
    module: Module,
    target: ast.expr,
    statement: ast.stmt,
    found: Trained,
    moves: dict[ast.stmt, bool],
) -> None:
    """One statement that gives the model's name a value."""
    line = statement.lineno
    if (
        not isinstance(statement, (ast.Assign, ast.AnnAssign))
        or module.parent(target) is not statement
    ):
        found.reason = f"line {line} assigns `{found.text}` together with other names"
        return
    value = statement.value
    base = unmoved(value)
    own = [
        n
        for n in _occurrences(module, target)
        if n is not target and module.statement(n) is statement and not _is_package(module, n, base)
    ]
    if _wrapper(module, base):
        if not own:
            found.reason = f"line {line} wraps it when creating it"
    elif isinstance(base, ast.Call) and _NEUTRAL.search(module.qualified(base.func) or ""):
        if _moved(module, value, base):
            moves[statement] = False
    elif isinstance(base, ast.Call) and (module.qualified(base.func) or "").startswith("torch.nn."):
        found.of_torch = True
        if _moved(module, value, base):
            moves[statement] = True
    elif isinstance(base, ast.Call) and module.qualified(base.func) == "torch.compile":
        found.compiled = True
    elif base in own:
        if _moved(module, value, base):
            moves[statement] = False
    elif own:
        found.reason = f"line {line} replaces it"
    elif _moved(module, value, base):
        moves[statement] = True


def _is_package(module: Module, node: ast.expr, base: ast.expr | None) -> bool:
    """Is it the package in ``model = model.Net()``, behind ``import model``?"""
    return (
        isinstance(base, ast.Call)
        and module.parent(node) is base.func
        and isinstance(node, ast.Name)
        and any(binding.kind == "import" for binding in module.bindings(node))
    )


def unmoved(value: ast.expr | None) -> ast.expr | None:
    """The model in ``model.train().to(device)``."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in _SELVES
    ):
        value = value.func.value
    return value


def _moved(module: Module, value: ast.expr | None, base: ast.expr | None) -> bool:
    """Does the chain of methods from ``base`` to ``value`` put it on a device?"""
    while value is not base and isinstance(value, ast.Call):
        if not isinstance(value.func, ast.Attribute) or value.func.attr not in _SELVES:
            return False
        if value.func.attr in ("cuda", "hpu"):
            return True
        given = [*value.args[:1], *(k.value for k in value.keywords if k.arg == "device")]
        if value.func.attr == "to" and any(_is_device(module, node) for node in given):
            return True
        value = value.func.value
    return False


def _is_device(module: Module, node: ast.expr) -> bool:
    """Is ``node`` a device that is not surely the CPU?"""
    for value in module.values(node):
        text = value
        if isinstance(value, ast.Call) and module.qualified(value.func) == "torch.device":
            text = next(iter(value.args), value)
        known = module.constant(text)
        if isinstance(known, str) and known.partition(":")[0] in ("cuda", "hpu"):
            return True
    return may_be_device(module, node) or is_device_number(module, node)


# -- the places that count ------------------------------------------------------------------


def _choose(
    module: Module, found: Trained, moves: dict[ast.stmt, bool], wraps: list[ast.stmt]
) -> None:
    """The first move on each path, which must are before every wrapper."""
    for statement, made in sorted(moves.items(), key=lambda item: item[0].lineno):
        earlier = [p for p in found.places if not _exclude(module, p, statement)]
        if made or not earlier:
            found.places.append(statement)
            looped = any(isinstance(a, _LOOPS) for a in _inside_function(module, statement))
            if looped and not made:
                found.reason = (
                    f"line {statement.lineno} moves it again in every iteration of a loop"
                )
        elif not any(_reached_from(module, statement, p) for p in earlier):
            found.reason = (
                f"it is moved on two paths, in lines {earlier[0].lineno} and {statement.lineno}"
            )
    if not found.places and not found.reason:
        found.reason = NOT_SEEN
    for wrap in wraps:
        where = [p for p in found.places if module.function(p) is module.function(wrap)]
        if not any(p.lineno < wrap.lineno for p in where) or any(
            p.lineno >= wrap.lineno and not _exclude(module, p, wrap) for p in where
        ):
            found.reason = (
                f"line {wrap.lineno} wraps it for distributed training before it is on the device"
            )
    if found.reason:
        found.places.clear()


def _inside_function(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    for above in module.ancestors(node):
        if isinstance(above, _FUNCTIONS):
            return
        yield above


def _exclude(module: Module, one: ast.stmt, other: ast.stmt) -> bool:
    """Are the statements in different branches of one `if`?"""
    sides = _sides(module, one)
    return any(sides.get(test, side) != side for test, side in _sides(module, other).items())


def _sides(module: Module, statement: ast.AST) -> dict[ast.AST, bool]:
    """The `if` statements around, each with whether it is their first branch."""
    found: dict[ast.AST, bool] = {}
    child = statement
    for above in _inside_function(module, statement):
        if isinstance(above, ast.If):
            found[above] = any(child is part for part in above.body)
        child = above
    return found


def _reached_from(module: Module, later: ast.stmt, earlier: ast.stmt) -> bool:
    """Is ``earlier`` run wherever ``later`` is: does its block hold ``later``?"""
    block = module.block(earlier)
    around = (later, *_inside_function(module, later))
    return any(above is part for above in around for part in block)
