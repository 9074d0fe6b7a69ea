"""Where a value comes from."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.pycode.cells import (
    ADD,
    CHAINS,
    CHANGED,
    CONTAINERS,
    COPIES,
    EXTEND,
    FIELDS,
    GROUPS,
    LOOK_UP,
    MATCHES,
    OPENED,
    PARTS,
    TEXTS,
    Cells,
)
from hpushim.pycode.places import (
    FUNCTIONS,
    At,
    Cell,
    Edge,
    Part,
    Step,
    Way,
    edge_to,
    last_name,
    meets,
)

if TYPE_CHECKING:
    from hpushim.pycode.source import Source

_ITEM, _VALUE, _KEY = Part.ITEM, Part.VALUE, Part.KEY


class Backward(Cells):
    """The edges back from a value."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._written: dict[Cell, dict[Step, list[tuple[Way, At]]]] = {}
        self._unknown: dict[Cell, Cell] = {}
        self._entries: dict[ast.Dict, dict[object, list[ast.expr]]] = {}

    def _back(self, at: At) -> Iterator[Edge | None]:
        node, way = at
        match node:
            case Cell():
                yield from self._into_cell(node, way)
            case ast.Name():
                for value in self.members(node) if way and way[0] in (_ITEM, _VALUE) else ():
                    yield edge_to("item", value, way[1:])
                cell = self.variable(node)
                # One that nothing binds holds what is put into it, and is no value besides.
                if cell is not None and (way or cell.owner is not None):
                    yield Edge(At(cell, way), "name")
            case ast.Attribute():
                yield from self._of_attribute(node, way)
            case ast.Subscript():
                for target in self.calls.implicit(node):
                    yield Edge(At(self.returned(target.function), way), "returned")
                yield edge_to("item", node.value, (self._step(node.slice),), way) if not isinstance(node.slice, ast.Slice) else (
                    edge_to("slice", node.value, (_ITEM,), way[1:]) if way else edge_to("slice", node.value)
                )  # fmt: skip
            case ast.IfExp():
                yield edge_to("choice", node.body, way)
                yield edge_to("choice", node.orelse, way)
            case ast.BoolOp():
                for value in node.values:
                    yield edge_to("choice", value, way)
            case ast.NamedExpr() | ast.Await() | ast.Starred():
                yield edge_to("choice", node.value, way)
            case ast.List() | ast.Tuple() | ast.Set():
                yield from self._of_elements(node, way)
            case ast.Dict():
                yield from self._of_table(node, way)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                if way:
                    yield edge_to("item", node.elt, way[1:])
            case ast.DictComp():
                if way:
                    yield edge_to(
                        "item", node.key if way[0] in (_ITEM, _KEY) else node.value, way[1:]
                    )
            case ast.Call():
                yield from self._of_call(node, way)
            case ast.arg():
                yield from self._of_parameter(node, way)
            case ast.JoinedStr():
                for part in node.values:
                    if isinstance(part, ast.FormattedValue):
                        yield edge_to("text", part.value)
                        for target in self.calls.implicit(part):
                            yield edge_to("text", self.returned(target.function))
            case ast.BinOp():
                yield from self._of_operation(node, way)
            case ast.UnaryOp(op=ast.Not()):
                yield edge_to("negated", node.operand)

    def _into_cell(self, cell: Cell, way: Way) -> Iterator[Edge | None]:
        if cell.kind == "returned":
            function = cell.owner
            assert isinstance(function, FUNCTIONS)
            for value in self.calls.returns(function):
                yield edge_to("returned", value, way)
            context = self.calls.is_context(function)
            for handed in self.calls.yields(function) if way or context else ():
                whole = context or isinstance(handed, ast.YieldFrom)
                yield edge_to("returned", handed.value, way if whole else way[1:])
            return
        if cell.kind == "written":
            yield from self._put_in(cell, way)
            return
        if cell.kind == "any attribute":
            for each in self.attributes(cell.name):
                yield Edge(At(each, way), "attribute")
            return
        yield from self._stored(cell, way)
        for bound in self.bindings(cell) if cell.kind == "variable" else ():
            if bound.kind == "param":
                yield Edge(At(bound.node, way), "given")
        if cell.kind == "attribute":
            for variable in self._class_level(cell):
                yield Edge(At(variable, way), "attribute")
            for owner in self.calls.having(cell.owner, cell.name):
                method = self.calls.method(owner, cell.name)
                if method is not None and self.calls.is_property(method):
                    yield Edge(At(self.returned(method), way), "returned")
            for at in self.recorded(cell):
                yield edge_to("argument", at.node, at.way, way)
            if cell.owner is None:
                for value, inner in self.options.values(cell.name):
                    yield edge_to("option", value, inner, way)
            else:
                yield Edge(At(self._cell("attribute", None, cell.name), way), "attribute")
        if way:
            yield from self._put_in(cell, way)

    def _put_in(self, cell: Cell, way: Way) -> Iterator[Edge | None]:
        """What is put into the container that a cell holds."""
        written = self._written_to(cell)
        step, rest = way[0], way[1:]
        if cell.kind != "written" and not isinstance(step, Part):
            # Under this key; what is put at an unknown place meets in a cell, for all keys once.
            found = written.get(step, [])
            if _ITEM in written or _VALUE in written:
                unknown = self._unknown.setdefault(cell, Cell("written", cell.name, cell))
                yield edge_to("item", unknown, (_ITEM if isinstance(step, int) else _VALUE,), rest)
        else:
            found = [put for key, puts in written.items() if isinstance(key, Part) or cell.kind != "written" for put in puts]  # fmt: skip
        for inner, put in found:
            if all(map(meets, inner, way)) and not (step is _KEY and inner[0] is _ITEM):
                yield edge_to("assigned", put.node, put.way, way[len(inner) :])

    def _of_attribute(self, node: ast.Attribute, way: Way) -> Iterator[Edge | None]:
        yield Edge(At(self.attribute(node), way), "attribute")
        if self.is_value_of_member(node):
            yield edge_to("attribute", node.value, way)
            for value in self.members(node.value):
                yield edge_to("attribute", value, way)

    def _of_elements(self, node: ast.List | ast.Tuple | ast.Set, way: Way) -> Iterator[Edge | None]:
        if not way:
            return
        step, rest = way[0], way[1:]
        spread = any(isinstance(each, ast.Starred) for each in node.elts)
        if isinstance(step, int) and not spread:
            if -len(node.elts) <= step < len(node.elts):
                yield edge_to("item", node.elts[step], rest)
        elif not isinstance(step, str) and step is not _KEY:
            for each in node.elts:
                if isinstance(each, ast.Starred):
                    yield edge_to("item", each.value, (_ITEM,), rest)
                else:
                    yield edge_to("item", each, rest)

    def _of_table(self, node: ast.Dict, way: Way) -> Iterator[Edge | None]:
        if not way:
            return
        step, rest = way[0], way[1:]
        if step in (_ITEM, _KEY):
            for key in node.keys:
                if key is not None:
                    yield edge_to("item", key, rest)
        elif isinstance(step, Part):
            for key, value in zip(node.keys, node.values, strict=True):
                yield edge_to("item", value, rest if key is not None else way)
        else:
            entries = self._entries.get(node)
            if entries is None:
                found: defaultdict[object, list[ast.expr]] = defaultdict(list)
                for key, value in zip(node.keys, node.values, strict=True):
                    found[self._step(key) if key is not None else None].append(value)
                entries = self._entries[node] = found
            for value in (*entries.get(step, ()), *entries.get(_VALUE, ())):
                yield edge_to("item", value, rest)
            for value in entries.get(None, ()):
                yield edge_to("item", value, way)

    def _of_call(self, node: ast.Call, way: Way) -> Iterator[Edge | None]:
        for target in self.calls.targets(node):
            if getattr(target.function, "name", "") not in ("__init__", "__new__"):
                yield Edge(At(self.returned(target.function), way), "returned")
        for target in self.calls.implicit(node):
            yield Edge(At(self.returned(target.function), way), "returned")
        func, args = node.func, node.args
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        name = last_name(func)
        if way and way[0] is not _KEY:
            for number, at in enumerate(self.fields(node).values()):
                if meets(way[0], number):
                    yield edge_to("item", at.node, at.way, way[1:])
        first = args[0] if args and not isinstance(args[0], ast.Starred) else None
        if name in OPENED and way and not isinstance(way[0], str) and (name == "astuple") >= (way[0] is _ITEM):  # fmt: skip
            yield edge_to("item", first or getattr(func, "value", None), (_ITEM,) if way[0] is _VALUE else way[:1], way[1:])  # fmt: skip
        if isinstance(func, ast.Attribute):
            yield from self._of_method(func, node, way)
        if self.enumeration(node) is not None:
            yield edge_to("choice", first, way)
        if name in COPIES and args:
            yield edge_to("choice", args[-1] if name == "cast" else args[0], way)
        elif name in CHAINS or name == "from_iterable":
            for each in args if way else ():
                yield edge_to("item", each, (_ITEM, *way) if name == "from_iterable" else (_ITEM, *way[1:]))  # fmt: skip
        elif name == "product":
            for place, each in enumerate(args):
                if way[1:] and meets(way[1], place):
                    yield edge_to("item", each, (_ITEM,), way[2:])
        elif name == "repeat" and way:
            yield edge_to("item", first, way[1:])
        elif name == "Counter" and way and way[0] in (_ITEM, _KEY):
            yield edge_to("item", first, (_ITEM,), way[1:])
        elif name == "ChainMap":
            for each in args:
                yield edge_to("choice", each, way)
        if name in FIELDS:
            default = keywords.get("default", first)
            if default is not None:
                yield edge_to("default", default, way)
            made = keywords.get("default_factory")
            if isinstance(made, ast.Lambda):
                yield Edge(At(self.returned(made), way), "returned")
        if name == "groupby" and args and way[1:] and meets(way[1], 0):
            for function in self.calls.functions(keywords.get("key", args[-1])):
                yield Edge(At(self.returned(function), way[2:]), "returned")
        if not isinstance(func, ast.Name):
            return
        if name == "getattr" and len(args) > 1:
            word = self._source.constant(args[1])
            if isinstance(word, str):
                yield Edge(At(self._named_attribute(word), way), "attribute")
            if len(args) > 2:
                yield edge_to("default", args[2], way)
        elif name == "vars" and way and isinstance(way[0], str):
            yield Edge(At(self._named_attribute(way[0]), way[1:]), "attribute")
        elif name == "dict":
            if way and isinstance(way[0], str) and way[0] in keywords:
                yield edge_to("item", keywords[way[0]], way[1:])
            elif way and way[0] is _VALUE:
                for value in keywords.values():
                    yield edge_to("item", value, way[1:])
            if first is not None and way:
                yield edge_to("choice", first, way)
                yield edge_to("item", first, (_ITEM, 0 if way[0] in (_ITEM, _KEY) else 1), way[1:])
        elif first is None:
            return
        elif name in CONTAINERS:
            if way:
                yield edge_to("item", args[-1], (way[0] if name in ("list", "tuple", "iter") else _ITEM,), way[1:])  # fmt: skip
        elif name == "next":
            yield edge_to("item", first, (_ITEM,), way)
            if len(args) > 1:
                yield edge_to("default", args[1], way)
        elif name in ("min", "max"):
            for each in args:
                yield edge_to("choice", each, way) if len(args) > 1 else edge_to("item", each, (_ITEM,), way)  # fmt: skip
        elif name == "enumerate":
            if way[1:2] in ((1,), (_VALUE,)):
                yield edge_to("item", first, (_ITEM,), way[2:])
        elif name == "zip":
            for place, each in enumerate(args):
                if way[1:2] and meets(way[1], place):
                    yield edge_to("item", each, (_ITEM,), way[2:])
        elif name == "map":
            if way:
                for function in self.calls.functions(first):
                    yield Edge(At(self.returned(function), way[1:]), "returned")
        elif name in TEXTS:
            yield edge_to("text", first)

    def _of_method(self, func: ast.Attribute, node: ast.Call, way: Way) -> Iterator[Edge | None]:
        base, name, args = func.value, func.attr, node.args
        if name in LOOK_UP:
            step = self._step(args[0]) if args else _VALUE
            yield edge_to("item", base, (step,), way)
            if len(args) > 1:
                yield edge_to("default", args[1], way)
        elif name in ("popitem", "items"):
            if name == "items":
                if not way:
                    return
                way = way[1:]
            for place, step in ((0, _KEY), (1, _VALUE)):
                if way and meets(way[0], place):
                    yield edge_to("item", base, (step,), way[1:])
        elif name == "values" and way:
            yield edge_to("item", base, (_VALUE,), way[1:])
        elif name == "keys" and way:
            yield edge_to("item", base, (_KEY,), way[1:])
        elif name in ("copy", "elements") and way:
            yield edge_to("item", base, way)
        elif name == "fromkeys" and way:
            if way[0] in (_ITEM, _KEY):
                yield edge_to("item", args[0] if args else None, (_ITEM, *way[1:]))
            elif len(args) > 1:
                yield edge_to("item", args[1], way[1:])
        elif name == "most_common" and way[1:] and meets(way[1], 0):
            yield edge_to("item", base, (_ITEM,), way[2:])
        elif name in MATCHES and args:
            yield edge_to("part", args[-1])  # of which a match is a part
        elif name in GROUPS:
            yield edge_to("part", base)
        elif name == "popleft":
            yield edge_to("item", base, (_ITEM,), way)
        elif name == "result" and not args:
            yield edge_to("choice", base, way)
        elif (name in PARTS and way) or (name in CHANGED and not way):
            yield edge_to("part", base)
            if name == "split" and len(args) > 1:
                yield edge_to("part", args[1])  # re.split
        elif name == "format" and isinstance(base, ast.Constant):
            for value in (*args, *(keyword.value for keyword in node.keywords)):
                yield edge_to("text", value)
        elif name == "join" and isinstance(base, ast.Constant) and args:
            yield edge_to("text", args[0], (_ITEM,))

    def _of_parameter(self, node: ast.arg, way: Way) -> Iterator[Edge | None]:
        function = self._source.parent(self._source.parent(node) or node)
        if not isinstance(function, FUNCTIONS):
            return
        default = self.calls.default(node)
        if default is not None:
            yield edge_to("default", default, way)
        applied = self.calls.applied(function)
        for call in (*applied.calls, *applied.partials, *self.calls.implicit_calls(function)):
            for given in self.calls.given_to(call, function).get(node.arg, ()):
                if all(map(meets, given.way, way)) and len(way) >= len(given.way):
                    yield edge_to("argument", given.at.node, given.at.way, way[len(given.way) :])
        for call in applied.loops:
            place = self.calls.place(function, node) if last_name(call.func) == "map" else 0
            items = call.args if last_name(call.func) in ("sorted", "min", "max") else call.args[1:]
            if 0 <= place < len(items):
                yield edge_to("loop", items[place], (_ITEM,), way)
        for value, inner in self.options.of_parameter(function, node.arg):
            yield edge_to("option", value, inner, way)

    def _of_operation(self, node: ast.BinOp, way: Way) -> Iterator[Edge | None]:
        left, right = node.left, node.right
        match node.op:
            case ast.Add():
                for side in (left, right):
                    yield edge_to("item", side, (_ITEM,), way[1:]) if way else edge_to("text", side)
            case ast.Mod() if not way:
                for value in right.elts if isinstance(right, ast.Tuple) else [right]:
                    yield edge_to("text", value)
            case ast.Mult() if way:
                yield edge_to("item", left, way)
            case ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor() if way:
                yield edge_to("item", left, way)
                yield edge_to("item", right, way)

    def _written_to(self, cell: Cell) -> dict[Step, list[tuple[Way, At]]]:
        """What is put into the container that a variable or attribute holds, by the first step of the way to it."""
        if isinstance(cell.owner, Cell):
            cell = cell.owner
        found = self._written.get(cell)
        if found is None:
            found = self._written[cell] = defaultdict(list)
            loads = cell.loads
            if cell.kind == "attribute" and cell.owner is None:
                loads = self._named_attribute(cell.name).loads
            for load in loads:
                for way, at in self._put_at(load):
                    found[way[0]].append((way, at))
            self.spend(len(loads))
        return found

    def _put_at(self, load: ast.expr) -> Iterator[tuple[Way, At]]:
        """What the statement around a load puts into the container that is read."""
        way: Way = ()
        node: ast.AST = load
        keys: list[tuple[Way, At]] = []
        while True:
            above = self._source.parent(node)
            call = self._source.parent(above) if isinstance(above, ast.Attribute) else None
            if isinstance(above, ast.Subscript) and above.value is node:
                keys.append(((*way, _KEY), At(above.slice)))
                way = (*way, self._step(above.slice))
                if not isinstance(above.ctx, ast.Load):
                    edge = self._assigned_to(above, ())
                    if edge is not None:
                        yield way, edge.at
                    yield from keys
                    return
                node = above
            elif (
                isinstance(call, ast.Call)
                and last_name(above) in ("get", "setdefault")
                and call.args
                and isinstance(self._source.parent(call), (ast.Attribute, ast.Subscript))
            ):
                keys.append(((*way, _KEY), At(call.args[0])))
                way = (*way, self._step(call.args[0]))
                node = call
            else:
                break
        if not isinstance(above, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not above:  # fmt: skip
            return
        if above.attr in ADD or above.attr in EXTEND or above.attr == "setdefault":
            yield from keys
        name, args = above.attr, call.args
        if name in ADD and args:
            yield (*way, _ITEM), At(args[-1])
        elif name == "setdefault" and len(args) == 2:
            yield (*way, self._step(args[0])), At(args[1])
            yield (*way, _KEY), At(args[0])
        elif name in EXTEND:
            for keyword in call.keywords:
                yield (*way, keyword.arg or _VALUE), At(keyword.value)
            # What a loop over a table gives are its keys, which no value of another table becomes.
            taken = (_VALUE,) if name == "extend" else (Part.ENTRY, _KEY)
            for arg in args:
                for step in (_ITEM, *taken):
                    yield (*way, step), At(arg, (step,))
