"""Where a value goes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from hpushim.pycode.calls import Target
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
    PARTS,
    TEXTS,
    Cells,
)
from hpushim.pycode.places import (
    FUNCTIONS,
    At,
    Cell,
    Edge,
    How,
    Part,
    Step,
    Way,
    edge_to,
    last_name,
    meets,
)

_ITEM, _VALUE, _KEY = Part.ITEM, Part.VALUE, Part.KEY
_NOWHERE: Way = (Part.REST,)


class Forward(Cells):
    """The edges on from a value."""

    def _on(self, at: At) -> Iterator[Edge | None]:
        node, way = at
        if isinstance(node, Cell):
            yield from self._out_of_cell(node, way)
            return
        if isinstance(node, ast.arg):
            function = self._source.parent(self._source.parent(node) or node)
            cell = self.variable_of(function, node.arg) if function is not None else None
            if cell is not None:
                yield Edge(At(cell, way), "name")
            return
        above = self._source.parent(node)
        match above:
            case ast.IfExp() if node is above.test:
                yield edge_to("test", above)
            case ast.NamedExpr():
                yield from self._to_target(above.target, way, "assigned")
                yield edge_to("choice", above, way)
            case ast.IfExp() | ast.BoolOp() | ast.Await() | ast.Starred():
                yield edge_to("choice", above, (_ITEM,) if isinstance(above, ast.Starred) and not way else way)  # fmt: skip
            case ast.UnaryOp(op=ast.Not()):
                yield edge_to("negated", above)
            case ast.Assign():
                for target in above.targets:
                    yield from self._to_target(target, way, "assigned")
            case ast.AnnAssign() if node is above.value:
                yield from self._to_target(above.target, way, "assigned")
            case ast.AugAssign(op=ast.BitOr()) if node is above.value and way:
                yield from self._to_target(above.target, way, "item")
            case ast.AugAssign() if node is above.value:
                yield from self._to_target(
                    above.target, (_ITEM, *way[1:]) if way else (), "item" if way else "added"
                )
            case ast.YieldFrom() if way:
                function = self._source.function(above)
                if function is not None:
                    yield Edge(At(self.returned(function), way), "returned")
            case ast.For() | ast.AsyncFor() | ast.comprehension() if node is above.iter:
                if way and meets(way[0], _ITEM):
                    yield from self._to_target(above.target, way[1:], "loop")
                elif not way:
                    yield edge_to("iterated", above)
            case ast.comprehension() | ast.If() | ast.While() | ast.Assert():
                yield edge_to("test", above)
            case ast.List() | ast.Tuple() | ast.Set():
                step: Step = _ITEM if isinstance(above, ast.Set) or isinstance(node, ast.Starred) else self._position(above, node)  # fmt: skip
                yield edge_to("item", above, () if isinstance(node, ast.Starred) else (step,), way)
            case ast.Dict():
                yield from self._into_table(above, node, way)
            case ast.Subscript():
                yield from self._out_of_container(above, node, way)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                yield edge_to("item", above, (_ITEM,), way)
            case ast.DictComp():
                yield edge_to("item", above, (_KEY if node is above.key else Part.ENTRY,), way)
            case ast.Return() | ast.Lambda():
                function = above if isinstance(above, ast.Lambda) else self._source.function(above)
                if function is not None:
                    yield Edge(At(self.returned(function), way), "returned")
            case ast.Yield():
                function = self._source.function(above)
                if function is not None:
                    context = self.calls.is_context(function)
                    yield edge_to("returned", self.returned(function), () if context else (_ITEM,), way)  # fmt: skip
            case ast.arguments():
                yield from self._default_of(above, node, way)
            case ast.Call() | ast.keyword():
                yield from self._into_call(above, node, way)
            case ast.Attribute():
                yield from self._by_method(above, way)
            case ast.FormattedValue():
                joined = self._source.parent(above)
                if joined is not None:
                    yield edge_to("text", joined)
            case ast.BinOp():
                yield from self._into_operation(above, node, way)
            case ast.Compare():
                yield edge_to("compared", above)
                yield from self._to_parameters(above, self.calls.implicit(above), node, way)
            case ast.withitem():
                if above.optional_vars is not None:
                    yield from self._to_target(above.optional_vars, way, "entered")
            case ast.Match():
                yield edge_to("pattern", above)
                for name, inner in self._captures(above):
                    if len(way) >= len(inner) and all(map(meets, inner, way)):
                        yield edge_to("matched", name, way[len(inner) :])
            case ast.MatchValue():
                yield edge_to("pattern", above)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if node in above.decorator_list:
                    yield edge_to("decorates", above)

    def _out_of_cell(self, cell: Cell, way: Way) -> Iterator[Edge | None]:
        if cell.kind == "returned":
            function = cell.owner
            assert isinstance(function, FUNCTIONS)
            applied = self.calls.applied(function)
            for call in (*applied.calls, *applied.partials):
                yield edge_to("returned", call, way)
            for place in self.calls.implicit_calls(function):
                yield from self._out_of_implicit(place, way)
            if self.calls.is_property(function):
                owner = self.calls.class_around(function)
                head = self.calls.family(owner) if owner is not None else None
                self._find_attributes(cell.name)
                yield Edge(At(self._cell("attribute", head, cell.name), way), "returned")
            above = self._source.parent(function)
            if isinstance(function, ast.Lambda) and isinstance(above, ast.Call) and last_name(above.func) == "map":  # fmt: skip
                yield edge_to("item", above, (_ITEM,), way)
            return
        if cell.kind == "any attribute":
            for call in self._source.index.calls("vars"):
                yield edge_to("item", call, (cell.name,), way)
        for load in self._loads_of(cell, way[0] if way else None):
            yield edge_to("name" if cell.kind == "variable" else "attribute", load, way)
        if cell.kind == "attribute":
            yield Edge(At(self._cell("any attribute", None, cell.name), way), "attribute")
            for each in self._families[cell.name] if cell.owner is None else ():
                yield Edge(At(each, way), "attribute")
        elif cell.kind == "variable" and isinstance(cell.owner, ast.ClassDef):
            self._find_attributes(cell.name)
            head = self.calls.family(cell.owner)
            yield Edge(At(self._cell("attribute", head, cell.name), way), "attribute")
            if cell.owner in self._enumerations:
                yield from self._of_member(cell.owner, way)

    def _of_member(self, owner: ast.ClassDef, way: Way) -> Iterator[Edge | None]:
        """Where a member of an enumeration goes besides by its name: ``self.value``, ``for each in Kind``."""
        variable = self.variable_of(self._source.scope(owner).node, owner.name)
        if variable is not None:
            yield edge_to("item", variable, (_ITEM,), way)
        for node in self._source.index.attributes("value"):
            if self.calls.is_self(node.value) and self.calls.class_around(node) is owner:
                yield edge_to("attribute", node, way)

    def _out_of_implicit(self, place: ast.AST, way: Way) -> Iterator[Edge | None]:
        """Where the result of a method goes that Python calls for an operator or a statement."""
        match place:
            case ast.withitem():
                if place.optional_vars is not None:
                    yield from self._to_target(place.optional_vars, way, "entered")
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                if way and meets(way[0], _ITEM):
                    yield from self._to_target(place.target, way[1:], "loop")
            case ast.FormattedValue():
                yield edge_to("text", self._source.parent(place))
            case _:
                yield edge_to("returned", place, way)

    def _loads_of(self, cell: Cell, step: Step | None) -> list[ast.expr]:
        """The loads of a cell, without those that ask a container for another key."""
        if step is None or isinstance(step, Part):
            return cell.loads
        if cell.read_at is None:
            cell.read_at = {}
            for load in cell.loads:
                above = self._source.parent(load)
                taken = isinstance(above, ast.Subscript) and above.value is load
                key = self._step(above.slice) if taken else _VALUE  # type: ignore[union-attr]
                known = isinstance(key, str) or (isinstance(key, int) and key >= 0)
                cell.read_at.setdefault(key if known else None, []).append(load)
        if isinstance(step, int) and step < 0:
            return cell.loads
        return [*cell.read_at.get(step, ()), *cell.read_at.get(None, ())]

    def _to_target(self, target: ast.expr, way: Way, how: How) -> Iterator[Edge | None]:
        todo: list[tuple[ast.expr, Way]] = [(target, way)]
        for node, rest in todo:  # grows
            match node:
                case ast.Name():
                    cell = self.variable(node)
                    if cell is not None:
                        yield Edge(At(cell, rest), how)
                case ast.Attribute():
                    yield Edge(At(self.attribute(node), rest), how)
                case ast.Subscript():
                    yield self._put_into(node.value, (self._step(node.slice), *rest), how)
                case ast.Tuple() | ast.List():
                    if not rest:
                        yield edge_to("unpacked", node)
                        continue
                    starred = False
                    for place, each in enumerate(node.elts):
                        if isinstance(each, ast.Starred):
                            starred = True
                            todo.append((each.value, (_ITEM, *rest[1:])))
                        elif meets(rest[0], _ITEM if starred else place):
                            todo.append((each, rest[1:]))

    def _put_into(self, node: ast.expr, way: Way, how: How = "assigned") -> Edge | None:
        """The edge to a variable or attribute in which a value is put at the end of a way."""
        while True:
            match node:
                case ast.Subscript():
                    way = (self._step(node.slice), *way)
                    node = node.value
                case ast.Call(func=ast.Attribute(attr="setdefault" | "get", value=base), args=[key, *_]):  # fmt: skip
                    way = (self._step(key), *way)
                    node = base
                case _:
                    break
        if isinstance(node, ast.Name):
            cell = self.variable(node)
        elif isinstance(node, ast.Attribute):
            cell = self.attribute(node, written=True)
        else:
            cell = None
        return edge_to(how, cell, way) if cell is not None else None

    def _into_table(self, table: ast.Dict, node: ast.AST, way: Way) -> Iterator[Edge | None]:
        place = self._position(table, node)
        if place < 0:
            yield edge_to("item", table, (_KEY,), way)
            return
        key = table.keys[place]
        step = self._step(key)
        yield edge_to(
            "item", table, (Part.ENTRY if step is _VALUE else step,) if key is not None else (), way
        )

    def _out_of_container(self, above: ast.Subscript, node: ast.AST, way: Way) -> Iterator[Edge | None]:  # fmt: skip
        if node is not above.value:
            yield edge_to("index", above)
            yield from self._to_parameters(above, self.calls.implicit(above), node, way)
        elif isinstance(above.slice, ast.Slice):
            yield edge_to("slice", above, (_ITEM, *way[1:]) if way else ())
        elif not way:
            yield edge_to("taken", above)
        elif isinstance(above.ctx, ast.Load) and way[0] is not _KEY and meets(way[0], self._step(above.slice)):  # fmt: skip
            yield edge_to("item", above, way[1:])

    def _default_of(self, args: ast.arguments, node: ast.AST, way: Way) -> Iterator[Edge | None]:
        function = self._source.parent(args)
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            if self.calls.default(arg) is node and function is not None:
                yield edge_to("default", self.variable_of(function, arg.arg), way)

    def _into_call(self, above: ast.Call | ast.keyword, node: ast.AST, way: Way) -> Iterator[Edge | None]:  # fmt: skip
        call = self._source.parent(above) if isinstance(above, ast.keyword) else above
        if not isinstance(call, ast.Call):
            return
        if node is call.func:
            yield edge_to("called", call)
            return
        yield Edge(At(above, way), "passed")
        value = node.value if isinstance(node, ast.Starred) else node
        yield from self._to_parameters(call, self.calls.targets(call), value, way)
        yield from self._into_record(call, value, way)
        part = node if above is call else above
        inner = way
        if isinstance(part, ast.keyword) and part.arg == "choices":
            inner = way[1:] if way and meets(way[0], _ITEM) else _NOWHERE
        for name in self.options.names(call, part) if inner is not _NOWHERE else ():
            for each in self.attributes(name):
                if each.owner is None:
                    yield edge_to("option", each, inner)
            function = self._source.parent(call)
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield edge_to("option", self.variable_of(function, name), inner)
        yield from self._through_builtin(call, above, node, way)

    def _to_parameters(self, call: ast.AST, targets: Iterable[Target], value: ast.AST, way: Way) -> Iterator[Edge | None]:  # fmt: skip
        for target in targets:
            for given in self.calls.given(call, target):
                if given.at.node is value and all(map(meets, given.at.way, way)):
                    cell = self.variable_of(target.function, given.parameter)
                    yield edge_to("argument", cell, given.way, way[len(given.at.way) :])

    def _into_record(self, call: ast.Call, value: ast.AST, way: Way) -> Iterator[Edge | None]:
        """The attribute, and the place in a named tuple, of a field that a record is given."""
        for number, (name, at) in enumerate(self.fields(call).items()):
            if at.node is value and all(map(meets, at.way, way)):
                rest = way[len(at.way) :]
                self._find_attributes(name)
                yield edge_to("argument", self._cell("attribute", self.calls.record_family(call), name), rest)  # fmt: skip
                yield edge_to("item", call, (number,), rest)
        if way and isinstance(way[0], str) and any(table is value for table in self.tables(call)):
            self._find_attributes(way[0])
            yield edge_to("argument", self._cell("attribute", None, way[0]), way[1:])

    def _through_builtin(self, call: ast.Call, above: ast.AST, node: ast.AST, way: Way) -> Iterator[Edge | None]:  # fmt: skip
        name, args = last_name(call.func), call.args
        if isinstance(above, ast.keyword):
            if name == "dict":
                yield edge_to("item", call, (above.arg or _VALUE,), way)
            elif name == "update" and isinstance(call.func, ast.Attribute) and above.arg:
                yield self._put_into(call.func.value, (above.arg, *way))
            elif above.arg == "default" and name in FIELDS:
                yield edge_to("default", call, way)
            elif name == "format":
                yield edge_to("text", call)
            return
        place = next((i for i, arg in enumerate(args) if arg is node), -1)
        if (name in COPIES and place == len(args) - 1) or self.enumeration(call) is not None:
            yield edge_to("choice", call, way)
        if isinstance(call.func, ast.Attribute) and last_name(call.func.value) != "itertools":
            base = call.func.value
            if name in ADD and place == len(args) - 1:
                yield self._put_into(base, (_ITEM, *way))
            elif name in EXTEND and way:
                yield self._put_into(base, way)
            elif name == "setdefault" and place == 1:
                yield self._put_into(base, (self._step(args[0]), *way))
                yield edge_to("default", call, way)
            elif name in ("get", "pop") and place == 1:
                yield edge_to("default", call, way)
            elif name == "fromkeys" and place == 1:
                yield edge_to("item", call, (Part.ENTRY,), way)
            elif name == "fromkeys" and way and meets(way[0], _ITEM):
                yield edge_to("item", call, (_KEY,), way[1:])
            elif name in LOOK_UP and place == 0:
                yield edge_to("index", call)
            elif place > 0 and (name in MATCHES or name == "split"):
                yield edge_to("part", call, (_ITEM,) if name == "split" else ())
            elif name == "format" or (name == "join" and way):
                yield edge_to("text", call)
            elif name == "from_iterable" and len(way) > 1:
                yield edge_to("item", call, way[1:])
            elif name in CHAINS and way:
                yield edge_to("item", call, (_ITEM, *way[1:]))
            return
        first = way[:1]
        looped = bool(first) and meets(first[0], _ITEM)
        match name:
            case "getattr" if place == 2:
                yield edge_to("default", call, way)
            case "setattr" if place == 2:
                word = self._source.constant(args[1])
                if isinstance(word, str):
                    self._find_attributes(word)
                    yield edge_to("assigned", self._cell("attribute", None, word), way)
            case "next":
                if place == 1:
                    yield edge_to("default", call, way)
                elif looped:
                    yield edge_to("item", call, way[1:])
            case "min" | "max":
                if len(args) > 1:
                    yield edge_to("choice", call, way)
                elif looped:
                    yield edge_to("item", call, way[1:])
            case "enumerate" if looped:
                yield edge_to("item", call, (_ITEM, 1), way[1:])
            case "zip" | "product" if looped:
                yield edge_to("item", call, (_ITEM, place), way[1:])
            case "repeat" if place == 0:
                yield edge_to("item", call, (_ITEM,), way)
            case "ChainMap":
                yield edge_to("choice", call, way)
            case "map" | "filter" if looped and place > 0:
                for function in self.calls.functions(args[0]):
                    names = [*function.args.posonlyargs, *function.args.args]
                    if place <= len(names):
                        yield edge_to("loop", self.variable_of(function, names[place - 1].arg), way[1:])  # fmt: skip
                if name == "filter":
                    yield edge_to("item", call, way)
            case "dict" if way[1:] and not isinstance(way[0], str) and way[1] in (0, 1):
                yield edge_to("item", call, (Part.ENTRY if way[1] else _KEY,), way[2:])
            case "dict" if way:
                yield edge_to("item", call, way)
            case _ if name in CHAINS and looped:
                yield edge_to("item", call, (_ITEM, *way[1:]))
            case _ if name in CONTAINERS and way:
                yield edge_to("item", call, way if name in ("list", "tuple", "iter") else (_ITEM, *way[1:]))  # fmt: skip
            case _ if name in TEXTS:
                yield edge_to("text", call)

    def _by_method(self, node: ast.Attribute, way: Way) -> Iterator[Edge | None]:
        call = self._source.parent(node)
        if not way:
            yield edge_to("read", node)
            if self.is_value_of_member(node):
                yield edge_to("attribute", node)
            if isinstance(call, ast.Call) and call.func is node:
                if node.attr in PARTS or node.attr in CHANGED:
                    yield edge_to("part", call, (_ITEM,) if node.attr in PARTS else ())
                elif node.attr in GROUPS:
                    yield edge_to("part", call, (_ITEM,) if node.attr == "groups" else ())
                elif node.attr == "result":
                    yield edge_to("choice", call)
            return
        if not isinstance(call, ast.Call) or call.func is not node:
            return
        looped = meets(way[0], _ITEM)
        match node.attr:
            case "values" if way[0] is not _KEY:
                yield edge_to("item", call, (_ITEM,), way[1:])
            case "items":
                yield edge_to("item", call, (_ITEM, 0 if way[0] is _KEY else 1), way[1:])
            case "result":
                yield edge_to("choice", call, way)
            case "keys" | "copy":
                if node.attr == "copy" or looped:
                    yield edge_to("item", call, way)
            case "popleft" if looped:
                yield edge_to("item", call, way[1:])
            case _ if node.attr in LOOK_UP and way[0] is not _KEY:
                if meets(way[0], self._step(call.args[0]) if call.args else _VALUE):
                    yield edge_to("item", call, way[1:])

    def _into_operation(self, above: ast.BinOp, node: ast.AST, way: Way) -> Iterator[Edge | None]:
        match above.op:
            case ast.Add() if way:
                yield edge_to("item", above, (_ITEM,), way[1:])
            case ast.Add():
                yield edge_to("text", above)
            case ast.Mod() if node is above.right:
                yield edge_to("text", above)
            case ast.Mult() | ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor() if way:
                yield edge_to("item", above, way)
            case _:
                yield edge_to("operand", above)

    def _captures(self, match: ast.Match) -> Iterator[tuple[Cell, Way]]:
        """The variables that the cases of a match give its subject, or a part of it."""
        for case in match.cases:
            todo: list[tuple[ast.pattern, Way]] = [(case.pattern, ())]
            for pattern, way in todo:  # grows
                if isinstance(pattern, ast.MatchAs):
                    if pattern.name is not None:
                        scope = self._source.scope(pattern)
                        cell = self._cells(pattern.name).get(id(scope.lookup(pattern.name)))
                        if cell is not None:
                            yield cell, way
                    if pattern.pattern is not None:
                        todo.append((pattern.pattern, way))
                elif isinstance(pattern, ast.MatchOr):
                    todo += [(each, way) for each in pattern.patterns]
                elif isinstance(pattern, ast.MatchSequence):
                    todo += [(each, (*way, place)) for place, each in enumerate(pattern.patterns)]
