"""Expressions that hold a device, its type or its text: the question "is it a device?", requested from the value graph.

One place for all: load-time rewriting, the rules of the codemod, the finder of comparisons. An answer is joined from what
a value may be (:class:`~hpushim.pycode.answers.Answers`); how certain it is, is read off at the end.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator

from hpushim.compare import texts
from hpushim.pycode.answers import Answers, Circular
from hpushim.pycode.cells import CHANGED, PARTS
from hpushim.pycode.places import NESTED, At, Cell, Edge, Function, How, Part, Way, last_name
from hpushim.pycode.source import Source
from hpushim.pycode.values import Values

#: Names that people give to what holds a device.
_NAMED = re.compile(
    r"device|(^|_)(dev|devs|accelerator|map_location|maploc)($|_|\d)|^dev[A-Z]|[a-z]Dev($|[A-Z])",
    re.IGNORECASE,
)
_COUNTS = ("set_", "is_", "num_", "n_", "has_", "use_", "count_", "find_")
#: Methods that make another text of a text.
OPERATIONS = CHANGED | PARTS | {"__getitem__"}
_PASSING = frozenset(("set", "list", "tuple", "sorted", "frozenset", "iter", "next", "min", "max", "reversed"))  # fmt: skip
_SHOWING = frozenset(("str", "repr", "format"))
#: Operators that make a set of two.
SET_METHODS = frozenset(("issubset", "issuperset", "isdisjoint", "intersection", "union", "difference", "symmetric_difference"))  # fmt: skip
OF_SETS = (ast.BitAnd, ast.BitOr, ast.Sub, ast.BitXor)


def is_named(name: str) -> bool:
    """Whether a variable, attribute, option or key of this name holds a device."""
    return _NAMED.search(name.lstrip("-")) is not None


class Holds(enum.IntFlag):
    """What an expression may hold."""

    #: A device, its type or its text, or a collection of such: by its name, by how it is made, by where it comes from.
    DEVICE = 1
    #: What was read from a device: ``x.device.type``, ``str(device)``.
    READING = 2
    #: Something else.
    OTHER = 4
    #: A text with a device's text in it: ``f"run-{x.device}"``.
    COMPOSED = 8
    #: A text that names CUDA: ``"cuda"``, ``f"cuda:{rank}"``.
    CUDA = 16


_NOTHING = 0
_DEVICE, _READING, _OTHER, _COMPOSED, _CUDA = (int(one) for one in Holds)
#: The ways into a container, and into what its keys are made of.
_INSIDE: list[Way] = [*((Part.VALUE,) * deep for deep in range(1, NESTED)), (Part.ITEM,), (Part.ITEM, Part.VALUE), (Part.VALUE, Part.ITEM)]  # fmt: skip
_SAME_WAY = frozenset(("given", "taken"))


class Evidence(Circular):
    """The answers for the expressions of one file: ``source.view(Evidence)``."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.values = source.view(Values)
        self.answers = Answers[int](self._own, self._edges, _carried)

    # -- the questions ----------------------------------------------------------------------

    def holds(self, node: ast.AST | Cell, way: Way = ()) -> Holds:
        """All that an expression may hold, or what lies there inside of it."""
        return Holds(self.answers.of(At(node, way)))

    def is_device(self, node: ast.expr | None) -> bool:
        """Whether the value may be a device, a device's type or a device's text, or a collection of such."""
        if node is None:
            return False
        if self.answers.of(At(node)) & _DEVICE:
            return True
        held = isinstance(node, ast.Name | ast.Attribute | ast.Call)
        return held and self._is_read(At(node, (Part.ITEM,)))

    def is_reading(self, node: ast.expr | None) -> bool:
        """Whether the value was surely read from a device: ``x.device.type``, ``str(device)``, or a name bound to one."""
        return node is not None and self._is_read(At(node))

    def _is_read(self, at: At) -> bool:
        answer = self.answers.of(at)
        return bool(answer & _READING) and not answer & _OTHER

    def is_composed(self, node: ast.expr | None) -> bool:
        """Whether the value is a text with a device's text in it: ``f"run-{x.device}"``, ``",".join(map(str, devices))``."""
        return node is not None and bool(self.answers.of(At(node)) & _COMPOSED)

    def has_readings(self, node: ast.expr) -> bool:
        """Whether items of the value were read from devices: keys of a table or a count, elements of a tuple, fields of a record."""
        return any(self.answers.of(At(node, way)) & _READING for way in _INSIDE)

    def holds_other(self, read: At, other: At) -> bool:
        """Whether the one holds a device's text inside where the other holds CUDA's: ``place_of(x) == ("cuda", 0)``."""
        return any(
            self.answers.of(At(other.node, (*other.way, *way))) & _CUDA
            and self.answers.of(At(read.node, (*read.way, *way))) & _READING
            for way in _INSIDE
        )

    def spells_cuda(self, node: ast.expr | None) -> bool:
        """Whether an expression may be the text of a CUDA device: itself, or what its name is bound to."""
        return node is not None and bool(self.answers.of(At(node)) & _CUDA)

    def origins(self, node: ast.expr) -> list[ast.AST]:
        """What a value comes from in the end."""
        return self.values.origins(node)

    def members(self, node: ast.expr | None) -> list[ast.expr] | None:
        """The elements of a literal collection, or keys of a literal table, also by name; None when the file does not say."""
        if node is None:
            return None
        found: list[ast.expr] = []
        todo: list[ast.AST] = [*self.origins(node)]
        seen: set[ast.AST] = set()
        spread: set[ast.AST] = set()
        for origin in todo:  # grows
            if origin in seen:
                continue
            seen.add(origin)
            called = origin.func if isinstance(origin, ast.Call) else None
            if isinstance(origin, ast.Tuple | ast.List | ast.Set):
                for one in origin.elts:
                    if isinstance(one, ast.Starred):
                        spread.update(inner := self.origins(one.value))
                        todo += inner
                    else:
                        found.append(one)
            elif isinstance(origin, ast.Dict):
                found += [key for key in origin.keys if key is not None]
                for key, value in zip(origin.keys, origin.values, strict=True):
                    if key is None:
                        spread.update(inner := self.origins(value))
                        todo += inner
            elif isinstance(origin, ast.Call) and isinstance(called, ast.Name) and called.id == "dict":  # fmt: skip
                found += [ast.Constant(keyword.arg) for keyword in origin.keywords if keyword.arg]
                for pairs in origin.args:
                    found += [pair.elts[0] for pair in self.members(pairs) or () if isinstance(pair, ast.Tuple)]  # fmt: skip
            elif isinstance(origin, ast.Call) and isinstance(called, ast.Name) and called.id in _PASSING and origin.args:  # fmt: skip
                todo += self.origins(origin.args[0])
            elif origin not in spread:
                return None
        return found if todo else None

    def looked_up_keys(self, table: ast.expr) -> Iterator[ast.expr]:
        """The keys that a table of this name is read by, or gets, in the file."""
        name = last_name(table)
        index = self._source.index
        found: list[ast.expr] = [*index.names(name), *index.attributes(name)] if name else []
        for node in found:
            above = self._source.parent(node)
            call = self._source.parent(above) if isinstance(above, ast.Attribute) else None
            if isinstance(above, ast.Subscript) and above.value is node:
                yield above.slice
            elif isinstance(call, ast.Call) and last_name(above) == "setdefault" and call.args:
                yield call.args[0]

    # -- what an expression says by itself --------------------------------------------------

    def _own(self, at: At) -> int:
        node, way = at
        if isinstance(node, Cell):
            if node.kind == "returned":
                return _NOTHING
            named = _DEVICE if is_named(node.name) else _NOTHING
            return named if way or self.values.sources(at) else named | _OTHER
        answer = self._by_itself(node)
        if way:
            return answer & _DEVICE
        if not answer and not isinstance(node, ast.Constant) and not self._edges(at):
            return _OTHER
        return answer

    def _by_itself(self, node: ast.AST) -> int:
        match node:
            case ast.Constant():
                if node.value is None:
                    return _NOTHING
                return _CUDA | _OTHER if texts.is_cuda(node) else _OTHER
            case ast.Name():
                return _DEVICE if is_named(node.id) else _NOTHING
            case ast.Attribute():
                return _DEVICE if node.attr == "type" or is_named(node.attr) else _NOTHING
            case ast.arg():
                note = node.annotation
                said = note is not None and ast.unparse(note).split("|")[0].strip(" '\"") in ("torch.device", "device")  # fmt: skip
                return (
                    _DEVICE if said or is_named(node.arg) or self._is_moved_to(node) else _NOTHING
                )
            case ast.Subscript():
                return _DEVICE if is_named(texts.constant(node.slice)) else _NOTHING
            case ast.JoinedStr() | ast.BinOp():
                return _CUDA | _OTHER if texts.is_cuda(node) else _NOTHING
            case ast.Call():
                return self._of_call(node)
            case ast.alias():
                return _DEVICE | _OTHER if is_named(node.asname or node.name) else _OTHER
        return _NOTHING

    def _is_moved_to(self, node: ast.arg) -> bool:
        """Is it what a method ``to`` gets, as torch's: ``def to(self, target)``?"""
        arguments = self._source.parent(node)
        function = self._source.parent(arguments) if isinstance(arguments, ast.arguments) else None
        if not isinstance(function, ast.FunctionDef) or function.name != "to":
            return False
        method = isinstance(self._source.parent(function), ast.ClassDef)
        return method and function.args.args[1:2] == [node]

    def _of_call(self, node: ast.Call) -> int:
        if texts.is_cuda(node):
            return _CUDA | _OTHER
        name = last_name(node.func)
        if name == "type":
            return _OTHER  # x.type(): the type of a tensor
        if reads_by_name(node):
            return _DEVICE
        if any(is_named(texts.constant(one)) for one in node.args if texts.constant(one)):
            return _DEVICE  # getattr(args, "device"), environ.get("DEVICE")
        if name == "attrgetter":
            return _NOTHING
        if isinstance(node.func, ast.Call) and last_name(node.func.func) == "attrgetter":
            return (
                _DEVICE
                if any(is_named(texts.constant(one)) for one in node.func.args)
                else _NOTHING
            )
        passes = name in _PASSING or name in _SHOWING or name in OPERATIONS
        return _DEVICE if not passes and is_named(name) and not name.startswith(_COUNTS) else _NOTHING  # fmt: skip

    # -- what it says of others -------------------------------------------------------------

    def _edges(self, at: At) -> list[Edge]:
        node, way = at
        found = list(self.values.sources(at))
        if isinstance(node, Cell):
            return found
        if way:
            return [*found, *self._of_items(node, way)] if isinstance(node, ast.Call) else found
        shown = texts.shown(node) if isinstance(node, ast.expr) else None
        match node:
            case ast.Call() if self.values.enumeration(node) is not None:
                return []  # a member, whose value is the program's own
            case ast.Call():
                return [*found, *self._of_arguments(node, found, shown)]
            case ast.Attribute() if node.attr == "type":
                # Whatever other objects of the file have a `type`: it is this one's.
                found = [*(found if self.values.calls.is_self(node.value) else ()), Edge(At(node.value), "read")]  # fmt: skip
            case ast.Subscript() if not isinstance(node.slice, ast.Slice):
                if not texts.constant(node.slice):
                    found.append(Edge(At(node.value), "taken"))
            case ast.List() | ast.Tuple() | ast.Set():
                found += [Edge(At(one), "iterated") for one in node.elts]
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                found.append(Edge(At(node.elt), "iterated"))
            case ast.BinOp() if isinstance(node.op, OF_SETS):
                found += [Edge(At(node.left), "iterated"), Edge(At(node.right), "iterated")]
        if shown is not None:
            found = [edge for edge in found if edge.how != "text"]
            found.append(Edge(At(shown), "read"))
        return found

    def _of_items(self, node: ast.Call, way: Way) -> Iterator[Edge]:
        """What the items of a count are, and of what ``map`` makes texts of."""
        name, args = last_name(node.func), node.args
        if way[0] is not Part.ITEM or not args:
            return
        if name in ("Counter", "OrderedDict"):
            yield Edge(At(args[0], way), "item")
        elif name == "map" and last_name(args[0]) in _SHOWING and len(args) == 2:
            yield Edge(At(args[1], way), "read")

    def _of_arguments(
        self, node: ast.Call, found: list[Edge], shown: ast.expr | None
    ) -> Iterator[Edge]:
        func, args = node.func, node.args
        name = last_name(func)
        if self.values.calls.implicit(node):
            return  # the text that a method of the file gives
        if shown is not None:
            yield Edge(At(shown), "read")
        elif name == "type":
            return
        elif isinstance(func, ast.Attribute) and name in OPERATIONS:
            yield Edge(At(func.value), "taken")
        elif reads_by_name(node) or (
            isinstance(func, ast.Name) and name in _SHOWING and len(args) == 1
        ):
            yield Edge(At(args[0]), "read")
        elif isinstance(func, ast.Name) and name in _PASSING and args:
            yield Edge(At(args[0]), "iterated")
        elif name in ("map", "filter") and len(args) == 2:
            yield Edge(At(args[1]), "iterated")
            getter = args[0] if last_name(getattr(args[0], "func", None)) == "attrgetter" else None
            if getter is not None:
                yield Edge(At(getter), "iterated")
            for function in self.values.calls.functions(args[0]):
                yield Edge(At(self.values.returned(function)), "iterated")

    def functions(self, node: ast.expr) -> list[Function]:
        """The functions of the file that an expression names, or is."""
        return self.values.calls.functions(node)


def _carried(edge: Edge, answer: int) -> int:
    how: How = edge.how
    if edge.same or how in _SAME_WAY:
        return answer if how != "taken" else answer & (_DEVICE | _READING | _COMPOSED)
    if how == "read":
        read = _DEVICE | _READING if answer & (_DEVICE | _READING) else _NOTHING
        return read | answer & (_COMPOSED | _CUDA)
    if how == "iterated":
        return answer & _DEVICE
    if how in ("slice", "part"):
        return answer & (_DEVICE | _READING | _COMPOSED | _CUDA)
    if how in ("text", "added"):
        return _COMPOSED if answer & (_DEVICE | _READING | _COMPOSED) else _NOTHING
    return _OTHER if how in ("imported", "defined") else _NOTHING


def reads_by_name(node: ast.Call) -> bool:
    """``getattr(x.device, "type")``."""
    return (
        isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) > 1
        and texts.constant(node.args[1]) == "type"
    )
