"""Texts that are put together: of what, and which texts a program makes of what it gives to its functions and loops over."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

from hpushim.pycode.walk import walk

#: A field of a ``%`` template; its name, where it has one, is what splitting gives between the texts.
_FIELD = re.compile(r"%(?:\((\w+)\))?[-0-9.]*[disrx]")
_MOST = 100


def put_together(data: bytes, parameter: str) -> Iterator[tuple[str, str]]:
    """The dotted names that are put together for a parameter, or in the first place of a call, each with what is called.

    ``("Build", "ours.nms._C")`` for ``Build("{}.{}._C".format(package, name))`` in a function that is called with those, in a loop over
    such texts, or where the file gives the names one each.
    """
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return
    functions = {node.name: node for node in walk(tree) if isinstance(node, ast.FunctionDef)}
    calls = [(_last(node.func), node) for node in walk(tree) if isinstance(node, ast.Call)]
    fixed = _texts(_named(tree))
    handed = {name: [_texts(_handed(function, call)) for called, call in calls if called == name] for name, function in functions.items()}  # fmt: skip
    inside = {part: name for name, function in functions.items() for part in walk(function)}
    for called, call in calls:
        values = [*(k.value for k in call.keywords if k.arg == parameter), *call.args[:1]]
        parts = (pieces(values[0]) if values else None) or []
        if len(parts) < 2:
            continue
        for own in handed.get(inside.get(call, ""), [{}]):
            some = [[part] if isinstance(part, str) else (fixed | own).get(_last(part), []) for part in parts]  # fmt: skip
            made = map("".join, product(*some)) if prod(map(len, some)) <= _MOST else ()
            yield from ((called, text) for text in made if all(each.isidentifier() for each in text.split(".")))  # fmt: skip


def _last(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _named(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that are given a value, or each of several in a loop."""
    for node in walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.For(target=ast.Name(id=name), iter=value) | ast.comprehension(target=ast.Name(id=name), iter=value):  # fmt: skip
                yield name, value


def _handed(function: ast.FunctionDef, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of a function with what a call gives them, or with their defaults."""
    taken = function.args
    places = [arg.arg for arg in (*taken.posonlyargs, *taken.args)]
    found = dict(zip(reversed(places), reversed(taken.defaults), strict=False))
    found |= {arg.arg: value for arg, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if value}  # fmt: skip
    found |= zip(places, call.args, strict=False)
    found |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    yield from found.items()


def _texts(given: Iterable[tuple[str, ast.expr]]) -> dict[str, list[str]]:
    """The texts that names may be."""
    found: dict[str, list[str]] = {}
    for name, value in given:
        some = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
        found.setdefault(name, []).extend(one.value for one in some if isinstance(one, ast.Constant) and isinstance(one.value, str))  # fmt: skip
    return found


def pieces(node: ast.AST, kept: ast.AST | None = None) -> list[str | ast.expr] | None:
    """What a text is put together from, in order: ``["cuda:", n]`` for ``f"cuda:{n}"`` and all its other spellings.

    ``+``, ``%``, ``format`` and ``join``; a literal in it is a text like those around, but for ``kept``. None for what does not show its parts.
    """
    found: list[str | ast.expr] | None = None
    match node:
        case ast.Constant(value=str() as text):
            return [text] if node is not kept else [node]
        case ast.JoinedStr():
            found = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]  # fmt: skip
        case ast.BinOp(op=ast.Add()):
            found = [part for side in added(node) for part in pieces(side, kept) or [side]]
            found = found if any(isinstance(p, str) or p is kept for p in found) else None
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str() as text), right=given):
            found = _filled(_FIELD.split(text), given)
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str() as text))):
            found = _formatted(node, text)
        case ast.Call(func=ast.Attribute(attr="join", value=ast.Constant(value=str() as text)), args=[ast.List(elts=parts) | ast.Tuple(elts=parts)]):  # fmt: skip
            found = [p for part in parts for p in (text, *(pieces(part, kept) or [part]))][1:]
    if found is None:
        return None
    joined: list[str | ast.expr] = []
    for part in found:
        piece: str | ast.expr = part
        if isinstance(part, ast.Constant) and type(part.value) in (str, int) and part is not kept:
            piece = str(part.value)
        if joined and isinstance(piece, str) and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    return joined


def added(node: ast.expr) -> list[ast.expr]:
    """The parts of ``"cuda" + ":" + str(n)``, from the left."""
    right: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        right.append(node.right)
        node = node.left
    return [node, *reversed(right)]


def _filled(parts: list[str], given: ast.expr) -> list[str | ast.expr] | None:
    """``"%s:%d" % (a, b)``, ``"%(k)s:0" % {"k": a}``: the template is cut into texts and the names of its fields."""
    names = parts[1::2]
    if isinstance(given, ast.Dict):
        table = {
            getattr(key, "value", None): value
            for key, value in zip(given.keys, given.values, strict=True)
        }
        values = [table[name] for name in names if name in table]
    else:
        values = list(given.elts) if isinstance(given, ast.Tuple) else [given]
    if len(values) != len(names):
        return None
    ends: list[str | ast.expr] = [*values, ""]
    return [part for pair in zip(parts[::2], ends, strict=True) for part in pair]


def _formatted(node: ast.Call, template: str) -> list[str | ast.expr] | None:
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    found: list[str | ast.expr] = []
    try:
        for number, (text, name, _, _) in enumerate(string.Formatter().parse(template)):
            found.append(text)
            if name is not None:
                head = re.split(r"[.\[]", name)[0]
                found.append(node.args[int(head or number)] if head.isdigit() or not head else named[head])  # fmt: skip
    except (ValueError, IndexError, KeyError):
        return None
    return found
