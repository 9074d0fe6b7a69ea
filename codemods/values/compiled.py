"""Functions that are compiled or captured as a graph, where no mark may stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.pycode.places import Function
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.names import word
from ..analysis.words import calls_like

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_COMPILES = re.compile(r"(^|[._])(compile|script|jit|trace|graph)$|graphed_callables$|_dynamo\.optimize$|^(ts)?compile_\w+")  # fmt: skip
_WORDS = re.compile(r"compile|script|jit|trace|graph|make_graphed_callables|optimize|\w*compile\w*")
_PARTS = ("compile", "script", "jit", "trace", "graph", "optimize")
_OWNERS = ("torch", "thunder", "habana_frameworks", "functorch")
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_compiled(module: Module, function: ast.AST) -> bool:
    """Is ``function`` compiled: by a decorator, by a call (``f = torch.compile(f)``), or as part of one that is?"""
    if not isinstance(function, _Function):
        return False
    for decorator in function.decorator_list:
        if _compiles(module, decorator):
            return True
    return function in module.view(_by_call)


def is_captured(module: Module, node: ast.AST) -> bool:
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
    return name.split(".", maxsplit=1)[0] in _OWNERS and _COMPILES.search(name) is not None


def _by_call(module: Module) -> frozenset[ast.AST]:
    """The functions of the file that a call compiles or captures, and those that only these call."""
    values = module.view(Values)
    found: set[ast.AST] = set()
    for call in [*calls_like(module, _WORDS, *_PARTS), *module.index.calls("partial")]:
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
