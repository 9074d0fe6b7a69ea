"""Where a node of :mod:`ast` is in libcst's tree of the same code.

Both trees have the same shape with other names: an argument is ``Call.args[1]`` here and ``Call.args[1].value`` there.
:func:`slot` gives the way from the libcst node of a parent to that of a child as attribute names and indices; :func:`get`
follows it and :func:`put` builds the parent anew with another child. An empty way means that both are one node there.
"""

from __future__ import annotations

import ast
import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst

Way = tuple[str | int, ...]


class Unplaced(Exception):
    """There is no libcst node for a node of :mod:`ast`; says which."""


def get(node: Any, way: Way) -> Any:
    """The node at the end of the way."""
    for step in way:
        node = node[step] if isinstance(step, int) else getattr(node, step)
    return node


def put(node: Any, way: Way, new: Any) -> Any:
    """``node`` with another node at the end of the way."""
    if not way:
        return new
    step, rest = way[0], way[1:]
    if isinstance(step, int):
        items = list(node)
        items[step] = put(items[step], rest, new)
        return items
    return node.with_changes(**{step: put(getattr(node, step), rest, new)})


def slot(parent: ast.AST, child: ast.AST, there: cst.CSTNode) -> Way:
    """The way from ``there``, libcst's node for ``parent``, to its node for ``child``. Raises :class:`Unplaced`."""
    finder = _FINDERS.get(parent.__class__)
    if finder is not None:
        way: Way | None = finder(parent, child, there)
        if way is not None:
            return way
    for field, written in _PLAIN.get(parent.__class__, {}).items():
        if getattr(parent, field, None) is child:
            return written
    place = _index(getattr(parent, "type_params", ()), child)
    if place is not None:
        return ("type_parameters", "params", place)
    raise Unplaced(f"{child.__class__.__name__} in {parent.__class__.__name__}")


@functools.lru_cache(maxsize=4)
def order(call: ast.Call | ast.ClassDef) -> tuple[ast.expr | ast.keyword, ...]:
    """The arguments of a call in source order, as libcst has them."""
    positional = call.args if isinstance(call, ast.Call) else call.bases
    if not call.keywords or not positional:
        return (*positional, *call.keywords)
    return tuple(sorted([*positional, *call.keywords], key=_start))


def _start(node: ast.expr | ast.keyword) -> tuple[int, int]:
    if isinstance(node, ast.keyword) and node.arg is None:
        return node.value.lineno, node.value.col_offset
    return node.lineno, node.col_offset


def _index(nodes: Sequence[Any], child: ast.AST) -> int | None:
    if len(nodes) > _LONG:
        return _places(nodes).get(child)
    return next((place for place, node in enumerate(nodes) if node is child), None)


#: A longer list is not gone through for each of its items.
_LONG = 32


#: The places of the items of the long lists that were last requested from: keys and values, positional arguments and others.
_PLACES: deque[tuple[Sequence[Any], dict[Any, int]]] = deque(maxlen=4)


def _places(nodes: Sequence[Any]) -> dict[Any, int]:
    for known, places in _PLACES:
        if known is nodes:
            return places
    made = {node: place for place, node in enumerate(nodes)}
    _PLACES.append((nodes, made))
    return made


# -- fields of one node ---------------------------------------------------------------------

_PLAIN: dict[type, dict[str, Way]] = {
    ast.Expr: {"value": ("value",)},
    ast.Return: {"value": ("value",)},
    ast.Delete: {},
    ast.AnnAssign: {"target": ("target",), "annotation": ("annotation", "annotation"), "value": ("value",)},
    ast.AugAssign: {"target": ("target",), "value": ("value",)},
    ast.Raise: {"exc": ("exc",), "cause": ("cause", "item")},
    ast.Assert: {"test": ("test",), "msg": ("msg",)},
    ast.If: {"test": ("test",)},
    ast.While: {"test": ("test",)},
    ast.For: {"target": ("target",), "iter": ("iter",)},
    ast.AsyncFor: {"target": ("target",), "iter": ("iter",)},
    ast.ExceptHandler: {"type": ("type",)},
    ast.Match: {"subject": ("subject",)},
    ast.match_case: {"pattern": ("pattern",), "guard": ("guard",)},
    ast.MatchValue: {"value": ("value",)},
    ast.MatchAs: {"pattern": ("pattern",)},
    ast.withitem: {"context_expr": ("item",), "optional_vars": ("asname", "name")},
    ast.Attribute: {"value": ("value",)},
    ast.keyword: {"value": ("value",)},
    ast.Starred: {"value": ("value",)},
    ast.BinOp: {"left": ("left",), "right": ("right",)},
    ast.UnaryOp: {"operand": ("expression",)},
    ast.Await: {"value": ("expression",)},
    ast.NamedExpr: {"target": ("target",), "value": ("value",)},
    ast.IfExp: {"test": ("test",), "body": ("body",), "orelse": ("orelse",)},
    ast.Lambda: {"args": ("params",), "body": ("body",)},
    ast.Yield: {"value": ("value",)},
    ast.YieldFrom: {"value": ("value", "item")},
    ast.Subscript: {"value": ("value",)},
    ast.ListComp: {"elt": ("elt",)},
    ast.SetComp: {"elt": ("elt",)},
    ast.GeneratorExp: {"elt": ("elt",)},
    ast.DictComp: {"key": ("key",), "value": ("value",)},
    ast.comprehension: {"target": ("target",), "iter": ("iter",)},
    ast.FormattedValue: {"value": ("expression",)},
}  # fmt: skip
#: What Python has from 3.12 on: ``type X[T: bound = default] = value``.
_NEWER: dict[str, dict[str, Way]] = {
    "TypeAlias": {"name": ("name",), "value": ("value",)},
    "TypeVar": {"bound": ("param", "bound"), "default_value": ("default",)},
    "ParamSpec": {"default_value": ("default",)},
    "TypeVarTuple": {"default_value": ("default",)},
}
_PLAIN |= {getattr(ast, name): ways for name, ways in _NEWER.items() if hasattr(ast, name)}


# -- lists, and whatever has another shape there --------------------------------------------


def _call(parent: ast.Call, child: ast.AST, there: Any) -> Way | None:
    if parent.func is child:
        return ("func",)
    return _argument(parent, child, "args")


def _argument(parent: ast.Call | ast.ClassDef, child: ast.AST, field: str) -> Way | None:
    place = _index(order(parent), child)
    if place is None:
        return None
    whole = isinstance(child, (ast.keyword, ast.Starred))
    return (field, place) if whole else (field, place, "value")


def _class(parent: ast.ClassDef, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.decorator_list, child)
    if place is not None:
        return ("decorators", place, "decorator")
    # libcst takes positional bases and those by keyword apart.
    for field, among in zip(("bases", "keywords"), _bases(parent), strict=True):
        inside = _index(among, child)
        if inside is not None:
            whole = isinstance(child, (ast.keyword, ast.Starred))
            return (field, inside) if whole else (field, inside, "value")
    return None


@functools.lru_cache(maxsize=4)
def _bases(parent: ast.ClassDef) -> tuple[list[Any], list[Any]]:
    items = order(parent)
    plain = [item for item in items if not _by_keyword(item)]
    return plain, [item for item in items if _by_keyword(item)]


def _by_keyword(item: ast.expr | ast.keyword) -> bool:
    return isinstance(item, ast.keyword)


def _function(parent: Any, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.decorator_list, child)
    if place is not None:
        return ("decorators", place, "decorator")
    if parent.args is child:
        return ("params",)
    if parent.returns is child:
        return ("returns", "annotation")
    return None


def _arguments(parent: ast.arguments, child: ast.AST, there: Any) -> Way | None:
    """Of parameters: the parameter itself, or a default."""
    positional = [*parent.posonlyargs, *parent.args]
    groups = (
        ("posonly_params", parent.posonlyargs),
        ("params", parent.args),
        ("kwonly_params", parent.kwonlyargs),
    )
    for field, args in groups:
        place = _index(args, child)
        if place is not None:
            return (field, place)
    for field, arg in (("star_arg", parent.vararg), ("star_kwarg", parent.kwarg)):
        if arg is child and arg is not None:
            return (field,)
    place = _index(parent.kw_defaults, child)
    if place is not None:
        return ("kwonly_params", place, "default")
    place = _index(parent.defaults, child)
    if place is None:
        return None
    place += len(positional) - len(parent.defaults)
    if place < len(parent.posonlyargs):
        return ("posonly_params", place, "default")
    return ("params", place - len(parent.posonlyargs), "default")


def _arg(parent: ast.arg, child: ast.AST, there: Any) -> Way | None:
    return ("annotation", "annotation") if parent.annotation is child else None


def _assign(parent: ast.Assign, child: ast.AST, there: Any) -> Way | None:
    if parent.value is child:
        return ("value",)
    place = _index(parent.targets, child)
    return None if place is None else ("targets", place, "target")


def _delete(parent: ast.Delete, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.targets, child)
    if place is None:
        return None
    return ("target", "elements", place, "value") if len(parent.targets) > 1 else ("target",)


def _with(parent: Any, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.items, child)
    return None if place is None else ("items", place)


def _import(parent: Any, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.names, child)
    return None if place is None else ("names", place)


def _elements(parent: Any, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.elts, child)
    if place is None:
        return None
    if there.__class__.__name__ == "Subscript":  # `x[a, b]`: the tuple is no node of its own there
        return ("slice", place, "slice", *(() if isinstance(child, ast.Slice) else ("value",)))
    whole = isinstance(child, ast.Starred)
    return ("elements", place) if whole else ("elements", place, "value")


def _dict(parent: ast.Dict, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.keys, child)
    if place is not None:
        return ("elements", place, "key")
    place = _index(parent.values, child)
    return None if place is None else ("elements", place, "value")


def _boolean(parent: ast.BoolOp, child: ast.AST, there: Any) -> Way | None:
    """``a and b and c`` is ``(a and b) and c`` there."""
    place = _index(parent.values, child)
    if place is None:
        return None
    last = len(parent.values) - 1
    if place == 0:
        return ("left",) * last
    return (*("left",) * (last - place), "right")


def _compare(parent: ast.Compare, child: ast.AST, there: Any) -> Way | None:
    if parent.left is child:
        return ("left",)
    place = _index(parent.comparators, child)
    return None if place is None else ("comparisons", place, "comparator")


def _subscript(parent: ast.Subscript, child: ast.AST, there: Any) -> Way | None:
    if parent.slice is not child:
        return None
    if isinstance(child, ast.Tuple) and (len(there.slice) > 1 or not _is_tuple(there.slice[0])):
        return ()
    return ("slice", 0, "slice") if isinstance(child, ast.Slice) else ("slice", 0, "slice", "value")


def _is_tuple(element: Any) -> bool:
    value = getattr(element.slice, "value", None)
    return value.__class__.__name__ == "Tuple"


def _slice(parent: ast.Slice, child: ast.AST, there: Any) -> Way | None:
    for field in ("lower", "upper", "step"):
        if getattr(parent, field) is child:
            return (field,)
    return None


def _comprehension(parent: Any, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.generators, child)
    return None if place is None else ("for_in", *("inner_for_in",) * place)


def _condition(parent: ast.comprehension, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.ifs, child)
    return None if place is None else ("ifs", place, "test")


def _joined(parent: ast.JoinedStr, child: ast.AST, there: Any) -> Way | None:
    """The fields of an f-string, counted through the strings that it is joined from."""
    fields = [value for value in parent.values if isinstance(value, ast.FormattedValue)]
    place = _index(fields, child)
    if place is None:
        return None
    ways = list(_fields(there, ()))
    return ways[place] if len(ways) == len(fields) else None


def _fields(there: Any, way: Way) -> list[Way]:
    name = there.__class__.__name__
    if name == "ConcatenatedString":
        return [*_fields(there.left, (*way, "left")), *_fields(there.right, (*way, "right"))]
    parts = (
        there.parts
        if name == "FormattedString"
        else there
        if isinstance(there, (list, tuple))
        else ()
    )
    lead = (*way, "parts") if name == "FormattedString" else way
    return [
        (*lead, place)
        for place, part in enumerate(parts)
        if part.__class__.__name__ == "FormattedStringExpression"
    ]


def _patterns(parent: Any, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.patterns, child)
    if place is None:
        return None
    return ("patterns", place, "pattern" if isinstance(parent, ast.MatchOr) else "value")


def _match_class(parent: ast.MatchClass, child: ast.AST, there: Any) -> Way | None:
    if parent.cls is child:
        return ("cls",)
    place = _index(parent.kwd_patterns, child)
    if place is not None:
        return ("kwds", place, "pattern")
    return _patterns(parent, child, there)


def _match_mapping(parent: ast.MatchMapping, child: ast.AST, there: Any) -> Way | None:
    place = _index(parent.keys, child)
    if place is not None:
        return ("elements", place, "key")
    place = _index(parent.patterns, child)
    return None if place is None else ("elements", place, "pattern")


def _format(parent: ast.FormattedValue, child: ast.AST, there: Any) -> Way | None:
    return ("format_spec",) if parent.format_spec is child else None


_FINDERS: dict[type, Callable[[Any, ast.AST, Any], Way | None]] = {
    ast.Call: _call,
    ast.ClassDef: _class,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.arguments: _arguments,
    ast.arg: _arg,
    ast.Assign: _assign,
    ast.Delete: _delete,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.List: _elements,
    ast.Tuple: _elements,
    ast.Set: _elements,
    ast.Dict: _dict,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.comprehension: _condition,
    ast.JoinedStr: _joined,
    ast.FormattedValue: _format,
    ast.MatchOr: _patterns,
    ast.MatchClass: _match_class,
    ast.MatchMapping: _match_mapping,
    ast.MatchSequence: _patterns,
}
