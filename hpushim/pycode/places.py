"""What a value is found at: a node or a cell, and the way into what it holds."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias, cast

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
#: ``try``, with ``except*`` as well, which Python has from 3.11 on.
TRIES = (ast.Try, cast("type[ast.Try]", getattr(ast, "TryStar", ast.Try)))


class Part(Enum):
    """One step into a container where the code does not say which."""

    ITEM = "item"  #: what a loop gives: an element of a list, a key of a table
    KEY = "key"  #: a key of a table
    VALUE = "value"  #: what a subscript gives: an element of a list, a value of a table
    ENTRY = "entry"  #: a value of a table, under a key that is not known
    REST = "rest"  #: a list of elements, as ``*rest`` takes them; never at the start of a way

    __hash__ = object.__hash__  # an enumeration's own is written in Python


Step: TypeAlias = int | str | Part
#: The way into a container, from the outside in: ``("device", 0)`` for ``x["device"][0]``.
Way: TypeAlias = tuple[Step, ...]
#: Values nested deeper are not followed. A way that grows with each turn (``x = [x]``) would have no end.
NESTED = 4

How = Literal[
    # The value itself goes on:
    "name", "attribute", "assigned", "choice", "default", "argument", "returned", "item", "loop", "entered", "option", "matched",
    # Another value that is made of it:
    "added", "negated", "text", "slice", "part",
    # A place that does something with it, and is the end of the way:
    "imported", "defined", "given", "called", "compared", "decorates", "index", "iterated", "operand", "passed", "pattern", "read", "taken",
    "test", "unpacked",
]  # fmt: skip
#: The edges along which the value itself goes on, unchanged.
SAME: frozenset[How] = frozenset(
    ("name", "attribute", "assigned", "choice", "default", "argument", "returned", "item", "loop", "entered", "option", "matched")
)  # fmt: skip


Kind = Literal["variable", "attribute", "any attribute", "returned", "written", "read by"]


@dataclass(eq=False, slots=True)
class Cell:
    """What holds a value and is no node: a variable, an attribute, what a function returns.

    All reads and writes of a variable meet in its one cell, so that n writes and m reads make n + m edges.
    """

    kind: Kind
    name: str
    #: The function that returns; the class where a variable or an attribute is one of a class; what is written into.
    owner: ast.AST | Cell | None = None
    loads: list[ast.expr] = field(default_factory=list)
    stores: list[ast.expr] = field(default_factory=list)

    #: Loads by the constant key that they are requested at once (``t["k"]``); None for all others.
    read_at: dict[Step | None, list[ast.expr]] | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


class At(NamedTuple):
    """The value of ``node``, or with a ``way`` what lies there inside of it."""

    node: ast.AST | Cell
    way: Way = ()


class Edge(NamedTuple):
    """A step from one value to another: where to, and how it gets there."""

    at: At
    how: How

    @property
    def node(self) -> ast.AST | Cell:
        return self.at.node

    @property
    def same(self) -> bool:
        """Is it the value itself that goes on?"""
        return self.how in SAME


def meets(one: Step, other: Step) -> bool:
    """May two steps into the same container lead to the same value?"""
    if one == other:
        return True
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other) < 0  # counted from the end
    pair = {one, other}
    if Part.KEY in pair:
        return Part.ITEM in pair
    if Part.ENTRY in pair:
        return Part.ITEM not in pair
    if Part.VALUE in pair:
        return True
    # A loop over a table gives its keys, so what was stored by a text is no item.
    return Part.ITEM in pair and not isinstance(one, str) and not isinstance(other, str)


def inside(node: ast.AST | Cell, *ways: Iterable[Step]) -> At | None:
    """The place at the end of some ways, one behind the other; None where it is nested too deep, or is no single value."""
    way: list[Step] = []
    for part in ways:
        for step in part:
            if way and way[-1] is Part.REST:
                way[-1] = Part.ITEM  # of the rest some element, whatever its number
            else:
                way.append(step)
    if len(way) > NESTED or (way and way[-1] is Part.REST):
        return None
    return At(node, tuple(way))


def last_name(node: ast.AST | None) -> str:
    """``device`` for ``torch.device`` and for ``device``."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def edge_to(how: How, node: ast.AST | Cell | None, *ways: Iterable[Step]) -> Edge | None:
    """An edge to the end of a way; None where that is nested too deep."""
    at = inside(node, *ways) if node is not None else None
    return Edge(at, how) if at is not None else None
