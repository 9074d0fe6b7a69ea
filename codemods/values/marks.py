"""Marks of lazy mode: the steps behind which one belongs, where one can be, and where one is already."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import PurePath
from typing import NamedTuple

from hpushim.engine.python.module import Module
from hpushim.pycode.places import TRIES, Function
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.kinds import base_words
from ..analysis.names import calls_like, word
from ..analysis.placement import stays_on_cpu, trains_on_device
from .training import LIGHTNING, Step, has_engine, is_of_loss, is_wrapper, steps

MARKS = ("mark_step", "iter_mark_step")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)
_LIGHTNING = frozenset(["LightningModule", "LightningLite", "LightningDataModule"])
_HOOKS = re.compile(r"\w*register_\w*hook")
_TESTS = re.compile(r"[Tt]ests?(_|[A-Z]|$)")
_ON_CPU = re.compile(r"(^|_)cpu(_|$)", re.I)
#: What compiles a function or captures a graph, where no mark may be.
_COMPILES = re.compile(r"(^|[._])(compile|script|jit|trace|graph)$|graphed_callables$|_dynamo\.optimize$|^(ts)?compile_\w+")  # fmt: skip
_COMPILING = re.compile(
    r"compile|script|jit|trace|graph|make_graphed_callables|optimize|\w*compile\w*"
)
_COMPILING_PARTS = ("compile", "script", "jit", "trace", "graph", "optimize")
_COMPILERS = ("torch", "thunder", "habana_frameworks", "functorch")
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Site(NamedTuple):
    """A step behind which a mark belongs."""

    statement: ast.stmt
    call: ast.Call
    step: Step


def unmarked(module: Module) -> list[Site]:
    """The steps of the file behind which a mark belongs and none is."""
    sites = _sites(module)
    statements = {site.statement for site in sites}
    return [site for site in sites if not _is_marked(module, site.statement, statements)]


def _sites(module: Module) -> list[Site]:
    """The steps of the file that are to be marked."""
    found: dict[ast.stmt, Site] = {}
    for call, step in steps(module):
        statement = module.statement(call)
        if statement not in found and _may_follow(module, statement, call):
            found[statement] = Site(statement, call, step)
    sites = list(found.values())
    if not sites or not trains_on_device(module, engine=has_engine(module)):
        return []
    updates = {site.statement for site in sites if site.step is Step.UPDATE}
    if updates:
        return [site for site in sites if not _is_followed(module, site.statement, updates)]
    trains = module.holds("zero_grad") or module.holds("optim")
    trains = trains or any(_is_in_loop(module, s.statement) or is_of_loss(s.call) for s in sites)
    return sites if trains else []


def _is_followed(module: Module, update: ast.stmt, updates: set[ast.stmt]) -> bool:
    """Does another update follow at once? One mark behind the last of them runs all."""
    if update not in updates:
        return False
    block = module.block(update)
    later = block[next(i for i, other in enumerate(block) if other is update) + 1 :]
    call = later[0].value if later and isinstance(later[0], ast.Expr) else None
    if isinstance(call, ast.Call) and word(call.func) == "zero_grad":
        del later[0]
    return bool(later) and later[0] in updates


def _is_in_loop(module: Module, statement: ast.stmt) -> bool:
    for above in module.ancestors(statement):
        if isinstance(above, (ast.For, ast.While, ast.AsyncFor)):
            return True
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
    return False


def _may_follow(module: Module, statement: ast.stmt, call: ast.Call) -> bool:
    """Can a mark be behind ``statement``, for a call in it, and does it belong there?"""
    if not isinstance(statement, _SIMPLE) or _has_no_gradients(module, statement, call):
        return False
    for child, above in module.upwards(call):
        if isinstance(above, ast.Lambda):
            return False
        if isinstance(above, _FUNCTIONS) and not _is_plain(module, above):
            return False
        if isinstance(above, (*_FUNCTIONS, ast.ClassDef)) and _TESTS.match(
            getattr(above, "name", "")
        ):
            return False
        if isinstance(above, ast.ClassDef) and _places_its_own(module, above, child):
            return False
    if _is_captured(module, call) or stays_on_cpu(module, module.function(call)):
        return False
    return not any(map(_TESTS.match, PurePath(module.path).parts))


def _has_no_gradients(module: Module, statement: ast.stmt, call: ast.Call) -> bool:
    """``optimizer.zero_grad()`` and at once ``optimizer.step()``: only the optimizer's state is made."""
    block, place = module.place(statement)
    above = block[place - 1].value if place and isinstance(block[place - 1], ast.Expr) else None  # type: ignore[attr-defined]
    return (
        isinstance(above, ast.Call)
        and not call.args
        and not call.keywords
        and module.source(above.func).removesuffix("zero_grad")
        == module.source(call.func).removesuffix("step")
    )


def _is_plain(module: Module, function: ast.AST) -> bool:
    """Not compiled, not a hook or the backward of an autograd function, not what others call as a step, not for the CPU."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if function.name in ("forward", "backward") and _in_autograd_function(module, function):
        return False
    if _ON_CPU.search(function.name) or is_wrapper(module, function):
        return False
    return not _is_compiled(module, function) and function.name not in module.view(_hooked)


def _hooked(module: Module) -> frozenset[str]:
    """Names of functions that the file registers as hooks: they run inside a backward pass."""
    return frozenset(
        word(arg)
        for call in calls_like(module, _HOOKS, "register_")
        if isinstance(call.func, ast.Attribute)
        for arg in call.args
        if isinstance(arg, (ast.Name, ast.Attribute))
    )


def _in_autograd_function(module: Module, function: ast.AST) -> bool:
    owner = module.parent(function)
    return isinstance(owner, ast.ClassDef) and "Function" in base_words(module, owner.name)


def _places_its_own(module: Module, owner: ast.ClassDef, method: ast.AST) -> bool:
    """A Lightning module, whose trainer steps; or an optimizer around another one."""
    defined = {part.name for part in owner.body if isinstance(part, ast.FunctionDef)}
    bases = base_words(module, owner.name)
    if {"training_step", "configure_optimizers"} <= defined or bases & _LIGHTNING:
        return True
    if any((module.qualified(base) or "").partition(".")[0] in LIGHTNING for base in owner.bases):
        return True
    return "Optimizer" in bases and getattr(method, "name", "").endswith("step")


def _is_marked(module: Module, statement: ast.stmt, sites: Collection[ast.AST]) -> bool:
    """Does a mark follow ``statement`` before anything else that is to be marked (``sites``)?"""
    while True:
        block = module.block(statement)
        place = next(i for i, other in enumerate(block) if other is statement)
        for later in block[place + 1 :]:
            if _holds_mark(later):
                return True
            if any(part in sites for part in walk(later)):
                return False
        parent = module.parent(statement)
        if not isinstance(parent, (ast.With, ast.AsyncWith, ast.If, *TRIES)):
            return False
        statement = parent


def _holds_mark(statement: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, (ast.Name, ast.Attribute))
        and word(part.func) in MARKS
        for part in walk(statement)
    )


# -- what is compiled or captured -----------------------------------------------------------


def _is_compiled(module: Module, function: ast.AST) -> bool:
    """Is ``function`` compiled: by a decorator, by a call (``f = torch.compile(f)``), or as part of one that is?"""
    if not isinstance(function, _Function):
        return False
    for decorator in function.decorator_list:
        if _compiles(module, decorator):
            return True
    return function in module.view(_by_call)


def _is_captured(module: Module, node: ast.AST) -> bool:
    """Is ``node`` run while a graph is captured: ``with torch.cuda.graph(g):``, or between its begin and end?"""
    for above in module.ancestors(node):
        if isinstance(above, (ast.With, ast.AsyncWith)) and any(
            _captures(module, item.context_expr) for item in above.items
        ):
            return True
    return _between(module, node)


def _between(module: Module, node: ast.AST) -> bool:
    begins = module.index.calls("capture_begin")
    ends = module.index.calls("capture_end")
    line = node.lineno  # type: ignore[attr-defined]
    around = module.function(node)
    return any(
        begin.lineno < line < end.lineno
        for begin in begins
        for end in ends
        if module.function(begin) is around and module.function(end) is around
    )


def _captures(module: Module, expression: ast.expr) -> bool:
    if not isinstance(expression, ast.Call):
        return False
    name = module.qualified(expression.func) or module.source(expression.func)
    return name.rpartition(".")[2] == "graph" and bool(expression.args or expression.keywords)


def _compiles(module: Module, node: ast.expr) -> bool:
    """``torch.compile``, ``torch.compile(mode=…)``, ``partial(torch.compile, …)``."""
    if isinstance(node, ast.Call):
        if word(node.func) == "partial" and node.args:
            return _compiles(module, node.args[0])
        return _compiles(module, node.func)
    name = module.qualified(node) or ""
    return name.split(".", maxsplit=1)[0] in _COMPILERS and _COMPILES.search(name) is not None


def _by_call(module: Module) -> frozenset[ast.AST]:
    """The functions of the file that a call compiles or captures, and those that only these call."""
    values = module.view(Values)
    found: set[ast.AST] = set()
    for call in [
        *calls_like(module, _COMPILING, *_COMPILING_PARTS),
        *module.index.calls("partial"),
    ]:
        if _compiles(module, call):
            outer = module.parent(call)  # torch.compile(mode="default")(f)
            applied = outer if isinstance(outer, ast.Call) and outer.func is call else call
            for arg in applied.args[:1]:
                found.update(_meant(values, arg))
    for captured in module.index.statements(ast.With):
        if any(_captures(module, item.context_expr) for item in captured.items):
            found.update(_called(values, captured))
    for function in list(found):
        found.update(
            helper
            for helper in _called(values, function)
            if all(function in module.ancestors(call) for call in values.calls_of(helper))
        )
    return frozenset(found)


def _meant(values: Values, arg: ast.expr) -> Iterator[ast.AST]:
    """The functions that are handed over: by name, as a tuple, or as what another function makes."""
    if isinstance(arg, (ast.Tuple, ast.List)):
        for item in arg.elts:
            yield from _meant(values, item)
    elif isinstance(arg, ast.Call):
        for maker in values.callees(arg):
            yield from (part for part in walk(maker) if isinstance(part, _Function))
    else:
        yield from values.calls.functions(arg)


def _called(values: Values, node: ast.AST) -> list[Function]:
    """The functions of the file that are called inside of ``node``."""
    calls = [part for part in walk(node) if isinstance(part, ast.Call)]
    return [function for call in calls for function in values.callees(call)]
