"""Functions that compare what they are given with CUDA: ``partial(eq, "cuda")`` and its like, made but not called."""

from __future__ import annotations

import ast

from hpushim.compare import texts
from hpushim.pycode.places import last_name
from hpushim.pycode.source import Source

_OPERATORS = frozenset(("eq", "ne", "is_", "contains"))
_METHODS = frozenset(("startswith", "endswith", "find", "count", "__eq__", "__contains__"))


def function_comparison(node: ast.Call | ast.Attribute, source: Source) -> list[ast.expr] | None:
    """What the function is applied to, as far as the file shows it; None when the node makes no such function."""
    if not _is_one(node, source):
        return None
    above = source.parent(node)
    if isinstance(above, ast.Call):
        return [one for one in above.args if one is not node]
    if isinstance(above, ast.keyword) and isinstance(call := source.parent(above), ast.Call):
        return call.args
    if isinstance(above, ast.Assign):
        names = [last_name(target) for target in above.targets]
        return [one for name in names for call in _uses(name, source) for one in call.args]
    return []


def _is_one(node: ast.Call | ast.Attribute, source: Source) -> bool:
    if isinstance(node, ast.Attribute):
        called = isinstance(above := source.parent(node), ast.Call) and above.func is node
        if called or node.attr not in ("__eq__", "__ne__", "index", "__contains__"):
            return False
        if isinstance(node.value, ast.List | ast.Tuple | ast.Set):
            return any(texts.is_cuda(one) for one in node.value.elts)
        return node.attr != "index" and texts.is_cuda(node.value)
    name = last_name(node.func)
    if name == "partial" and node.args and last_name(node.args[0]) in _OPERATORS:
        return any(texts.is_cuda(one) for one in node.args[1:])
    return (
        name == "methodcaller"
        and texts.constant(node.args[0] if node.args else None) in _METHODS
        and any(texts.is_beginning(one) for one in node.args[1:])
    )


def _uses(name: str, source: Source) -> list[ast.Call]:
    """The calls of a function by name, and those of ``map`` and ``filter`` that it is given to."""
    given = [
        call
        for which in ("map", "filter", "sorted", "min", "max", "takewhile", "dropwhile")
        for call in source.index.calls(which)
        if any(last_name(one) == name for one in call.args)
    ]
    return [*source.index.calls(name), *given]
