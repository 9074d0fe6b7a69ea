"""The variables, attributes and results of a file: what its values meet in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from hpushim.pycode.answers import Circular
from hpushim.pycode.calls import Calls
from hpushim.pycode.options import Options
from hpushim.pycode.places import (
    At,
    Cell,
    Edge,
    Function,
    Kind,
    Part,
    Step,
    Way,
    edge_to,
    inside,
    last_name,
    meets,
)
from hpushim.pycode.scope import Binding
from hpushim.pycode.walk import walk

if TYPE_CHECKING:
    from hpushim.pycode.source import Source

#: Builtins that give a container of what they are given.
CONTAINERS = frozenset(("list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "deque", "filter"))  # fmt: skip
#: Calls that give their argument again: a copy, another type, written and read.
COPIES = frozenset(("copy", "deepcopy", "cast", "dumps", "loads"))
#: Calls that give the items of all that they are given.
CHAINS = frozenset(("chain", "merge", "cycle", "islice", "takewhile", "dropwhile"))
#: Calls that make attributes of what they are given by name, and of the entries of a table.
RECORDS = frozenset((
    "SimpleNamespace", "Namespace", "replace", "_replace", "evolve", "set_defaults", "EasyDict", "edict", "AttrDict", "Munch", "DotMap", "Box", "ConfigDict", "create",
))  # fmt: skip
#: Calls that give what a record holds, in order or by the names of its fields.
OPENED = frozenset(("astuple", "asdict", "_asdict", "vars"))
#: Calls that declare a field or an option and give its default.
FIELDS = frozenset(("field", "Field", "Option", "Argument"))
#: Methods that put their argument into the object, as an item or item by item.
ADD = frozenset(("append", "add", "appendleft", "insert"))
EXTEND = frozenset(("extend", "update"))
LOOK_UP = frozenset(("get", "pop", "setdefault", "__getitem__"))
TEXTS = frozenset(("str", "repr", "format"))
#: Methods that find a match of a pattern in their last argument.
MATCHES = frozenset(("match", "search", "fullmatch", "sub", "subn"))
#: Methods of a match that give what it matched.
GROUPS = frozenset(("group", "groups"))
#: Methods that give parts of a text, and the text with less or with other letters.
PARTS = frozenset(("split", "rsplit", "partition", "rpartition"))
CHANGED = frozenset((
    "lower", "upper", "casefold", "title", "capitalize", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace", "encode", "decode", "__str__",
))  # fmt: skip


class Cells(Circular):
    """The cells of one file, what its statements assign to them, and what its calls reach."""

    def __init__(self, source: Source) -> None:
        self._source = source
        #: Counts the work on the file; raises :class:`~hpushim.pycode.steps.TooManySteps` when there is too much of it.
        self.spend = source.steps.spend
        #: The cells of a name's variables, by the list of bindings that each is.
        self._variables: dict[str, dict[int, Cell]] = {}
        self._attributes: dict[tuple[Kind, ast.AST | None, str], Cell] = {}
        self._families: dict[str, list[Cell]] = {}
        self._returned: dict[Function, Cell] = {}
        self._named: dict[str, dict[str, list[ast.Call]]] = {}
        self._positions: dict[ast.AST, dict[ast.AST, int]] = {}
        self._fields_of: dict[ast.ClassDef, tuple[str, ...] | None] = {}
        self.calls = Calls(source, self)
        self.options = Options(source)

    def sources(self, place: At | ast.AST | Cell) -> tuple[Edge, ...]:
        """Where a value comes from, one step back."""
        raise NotImplementedError

    def uses(self, place: At | ast.AST | Cell) -> tuple[Edge, ...]:
        """Where a value goes, one step on."""
        raise NotImplementedError

    # -- cells ------------------------------------------------------------------------------

    def variable(self, node: ast.Name) -> Cell | None:
        """The variable that a name reads or writes."""
        cells = self._cells(node.id)
        bound = self._source.bindings(node)
        return cells.get(id(bound) if bound else 0)

    def variable_of(self, function: ast.AST, name: str) -> Cell | None:
        """The variable of a name in the scope that a function, a class or the module opens."""
        cells = self._cells(name)
        scope = self._source.scope_of(function)
        bound = scope.bindings.get(name) if scope is not None else None
        return cells.get(id(bound)) if bound is not None else None

    def _cells(self, name: str) -> dict[int, Cell]:
        cells = self._variables.get(name)
        if cells is None:
            source = self._source
            nodes = source.index.names(name)
            cells = self._variables[name] = {
                id(bound): Cell("variable", name, scope.node)
                for scope in source.index.scopes.values()
                if (bound := scope.bindings.get(name)) is not None
            }
            for node in nodes:
                bound = source.bindings(node)
                # A name that nothing here binds (of a star import, of another cell) is one variable.
                cell = (
                    cells.get(id(bound)) if bound else cells.setdefault(0, Cell("variable", name))
                )
                if cell is not None:
                    (cell.loads if isinstance(node.ctx, ast.Load) else cell.stores).append(node)
            self.spend(len(nodes))
        return cells

    def bindings(self, cell: Cell) -> list[Binding]:
        """What binds a variable."""
        scope = self._source.scope_of(cell.owner) if isinstance(cell.owner, ast.AST) else None
        return scope.bindings.get(cell.name, []) if scope is not None else []

    def attribute(self, node: ast.Attribute, *, written: bool = False) -> Cell:
        """The attribute that a node reads or writes (or that is ``written`` into): of a class, or of objects of any class."""
        self._find_attributes(node.attr)
        head = self._head_of(node)
        if head is None and isinstance(node.ctx, ast.Load) and not written:
            return self._cell("any attribute", None, node.attr)
        return self._cell("attribute", head, node.attr)

    def _head_of(self, node: ast.Attribute) -> ast.ClassDef | None:
        calls = self.calls
        if calls.is_self(node.value):
            owner = calls.class_around(node)
        else:
            owner = calls.class_named(node.value)
        return calls.family(owner) if owner is not None else None

    def _cell(self, kind: Kind, head: ast.ClassDef | None, name: str) -> Cell:
        cell = self._attributes.get((kind, head, name))
        if cell is None:
            cell = self._attributes[kind, head, name] = Cell(kind, name, head)
            if head is not None:
                self._families[name].append(cell)
        return cell

    def attributes(self, name: str) -> list[Cell]:
        """The attributes of a name: of unknown objects first, then of each family of classes that has one."""
        self._find_attributes(name)
        return [self._cell("attribute", None, name), *self._families[name]]

    def _find_attributes(self, name: str) -> None:
        if name in self._families:
            return
        self._families[name] = []
        nodes = self._source.index.attributes(name)
        self.spend(len(nodes))
        for node in nodes:
            cell = self.attribute(node)
            (cell.loads if isinstance(node.ctx, ast.Load) else cell.stores).append(node)
        for call in self._by_name("getattr").get(name, ()):
            self._cell("any attribute", None, name).loads.append(call)
        for call in self._by_name("setattr").get(name, ()):
            if len(call.args) == 3:
                self._cell("attribute", None, name).stores.append(call)
        for owner in self.calls.classes_with(name):
            self._cell("attribute", self.calls.family(owner), name)

    def _by_name(self, function: str) -> dict[str, list[ast.Call]]:
        """The calls of ``getattr`` or ``setattr``, by the attribute that they name."""
        found = self._named.get(function)
        if found is None:
            found = self._named[function] = {}
            for call in self._source.index.calls(function):
                word = self._source.constant(call.args[1]) if len(call.args) > 1 else None
                if isinstance(word, str) and isinstance(call.func, ast.Name):
                    found.setdefault(word, []).append(call)
        return found

    def _class_level(self, cell: Cell) -> list[Cell]:
        """The variables that an attribute is where the bodies of its classes bind the name."""
        found = [self.variable_of(each, cell.name) for each in self.calls.having(cell.owner, cell.name)]  # fmt: skip
        return [variable for variable in found if variable is not None]

    # -- records ----------------------------------------------------------------------------

    def fields(self, call: ast.Call) -> dict[str, At]:
        """What a call gives the fields of the record that it makes: a dataclass, a named tuple, ``SimpleNamespace(x=v)``."""
        if last_name(call.func) == "namedtuple":
            return self._defaults(call)
        declared = self._declared_fields(call)
        if declared is None and last_name(call.func) not in RECORDS:
            return {}
        found: dict[str, At] = {}
        for number, value in enumerate(call.args if declared else ()):
            if isinstance(value, ast.Starred):
                found |= {n: At(value.value, (i,)) for i, n in enumerate(declared[number:])}  # type: ignore[index]
                break
            if number < len(declared):  # type: ignore[arg-type]
                found[declared[number]] = At(value)  # type: ignore[index]
        return found | {k.arg: At(k.value) for k in call.keywords if k.arg is not None}

    def tables(self, call: ast.Call) -> list[ast.expr]:
        """The tables whose entries a call makes attributes: ``EasyDict({"x": v})``, ``Namespace(**table)``."""
        if last_name(call.func) not in RECORDS:
            return []
        spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
        return [*spread, *(call.args[:1] if isinstance(call.func, ast.Name) or last_name(call.func) == "create" else ())]  # fmt: skip

    def _declared_fields(self, call: ast.Call) -> tuple[str, ...] | None:
        """The fields that a call's positional arguments are, in order; None where it makes no record of this file."""
        owner = self.calls.class_named(call.func)
        if owner is None:
            return self._namedtuples.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if owner not in self._fields_of:
            family = self.calls.bases(owner)[::-1]
            made = any(self.calls.method(each, "__init__") for each in family)
            names = [s.target.id for each in family for s in each.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]  # fmt: skip
            self._fields_of[owner] = None if made or not names else tuple(dict.fromkeys(names))
        return self._fields_of[owner]

    @cached_property
    def _namedtuples(self) -> dict[str, tuple[str, ...]]:
        """``P = namedtuple("P", "x y")``: the fields by the name."""
        found = {}
        for call in self._source.index.calls("namedtuple"):
            above = self._source.parent(call)
            for target in above.targets if isinstance(above, ast.Assign) else ():
                found[getattr(target, "id", "")] = self._words(call)
        return found

    def _words(self, call: ast.Call) -> tuple[str, ...]:
        """The fields of ``namedtuple("P", "x y")``."""
        names = call.args[1] if len(call.args) > 1 else None
        text = self._source.constant(names)
        if isinstance(text, str):
            return tuple(text.replace(",", " ").split())
        return tuple(str(self._source.constant(each)) for each in getattr(names, "elts", ()))

    def _defaults(self, call: ast.Call) -> dict[str, At]:
        """The defaults of a named tuple, which are those of its last fields."""
        values = next((k.value for k in call.keywords if k.arg == "defaults"), None)
        count = len(getattr(values, "elts", ()))
        last = self._words(call)[-count:] if count else ()
        return {name: At(values, (place,)) for place, name in enumerate(last) if values is not None}

    @cached_property
    def _recorded(self) -> dict[str, list[tuple[ast.Call, At]]]:
        """What calls give the fields of records, by the name of the field."""
        found: dict[str, list[tuple[ast.Call, At]]] = {}
        index = self._source.index
        named = {"namedtuple", *RECORDS, *self._namedtuples, *(each.name for each in index.statements(ast.ClassDef))}  # fmt: skip
        for call in (call for name in sorted(named) for call in index.calls(name)):
            for name, at in self.fields(call).items():
                found.setdefault(name, []).append((call, at))
        return found

    def recorded(self, cell: Cell) -> Iterator[At]:
        """What records are given for an attribute where they are made."""
        for call, at in self._recorded.get(cell.name, ()):
            if self.calls.record_family(call) is cell.owner:
                yield at
        if cell.owner is None:
            for call in self._making:
                yield from (At(table, (cell.name,)) for table in self.tables(call))

    @cached_property
    def _making(self) -> list[ast.Call]:
        return [call for name in sorted(RECORDS) for call in self._source.index.calls(name) if self.tables(call)]  # fmt: skip

    def returned(self, function: Function) -> Cell:
        """What a function returns."""
        cell = self._returned.get(function)
        if cell is None:
            name = getattr(function, "name", "lambda")
            cell = self._returned[function] = Cell("returned", name, function)
        return cell

    def stored(self, cell: Cell) -> Iterator[Edge]:
        """What statements assign to a variable or an attribute; of parameters their declaration."""
        yield from (edge for edge in self._stored(cell, ()) if edge is not None)
        for bound in self.bindings(cell) if cell.kind == "variable" else ():
            if bound.kind == "param":
                yield Edge(At(bound.node), "given")

    def _stored(self, cell: Cell, way: Way) -> Iterator[Edge | None]:
        for target in cell.stores:
            if isinstance(target, ast.Call):  # setattr(o, "x", v)
                yield edge_to("assigned", target.args[2], way)
            else:
                yield self._assigned_to(target, way)
        for bound in self.bindings(cell) if cell.kind == "variable" else ():
            if bound.kind == "import":
                yield Edge(At(bound.node, way), "imported")
            elif bound.kind in ("def", "class"):
                yield Edge(At(bound.node, way), "defined")
            elif isinstance(bound.node, ast.pattern):
                subject = self.captured(bound.node)
                # Not out of tables: where all names go round in circles, each kind of step multiplies the ways.
                if subject is not None and not any(isinstance(step, str) for step in subject.way):
                    yield edge_to("matched", subject.node, subject.way, way)

    def _assigned_to(self, target: ast.expr, way: Way) -> Edge | None:
        """What a target is given by the statement that it is in."""
        inner: list[Step] = []
        node: ast.AST = target
        above = self._source.parent(node)
        while isinstance(above, (ast.Tuple, ast.List, ast.Starred)):
            if isinstance(above, ast.Starred):
                inner.insert(0, Part.REST)
                node, above = above, self._source.parent(above)
                assert above is not None
                node, above = above, self._source.parent(above)
                continue
            place = self._position(above, node)
            rest = next((i for i, e in enumerate(above.elts[: place + 1]) if isinstance(e, ast.Starred)), place)  # fmt: skip
            inner.insert(0, place if rest == place else Part.ITEM)
            node, above = above, self._source.parent(above)
        match above:
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() if (
                above.value is not None and node is not above.value
            ):
                return edge_to("assigned", above.value, inner, way)
            case ast.AugAssign():
                if way and isinstance(
                    above.op, ast.BitOr
                ):  # a table grows by the entries of another
                    return edge_to("item", above.value, way)
                if way:  # a list grows by the items of another
                    return edge_to("item", above.value, (Part.ITEM,), way[1:])
                return edge_to("added", above.value)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                return edge_to("loop", self._given_by(above) or above.iter, (Part.ITEM,), inner, way)  # fmt: skip
            case ast.withitem():
                return edge_to("entered", self._given_by(above) or above.context_expr, inner, way)
        return None

    def _given_by(self, node: ast.AST) -> Cell | None:
        """What a method gives that Python calls for a statement: ``__enter__``, ``__iter__``."""
        called = self.calls.implicit(node)
        return self.returned(called[0].function) if called else None

    def captured(self, pattern: ast.AST) -> At | None:
        """The subject, or the part of it, that a pattern gives its name."""
        way: list[Step] = []
        above = self._source.parent(pattern)
        while not isinstance(above, ast.Match):
            if isinstance(above, ast.MatchSequence):
                way.insert(0, above.patterns.index(pattern))  # type: ignore[arg-type]
            elif isinstance(above, ast.MatchMapping):
                way.insert(0, self._step(above.keys[above.patterns.index(pattern)]))  # type: ignore[arg-type]
            elif not isinstance(above, (ast.MatchAs, ast.MatchOr, ast.match_case)):
                return None
            pattern, above = above, self._source.parent(above)
        return inside(above.subject, way)

    def patterns(self, match: ast.Match, way: Way = ()) -> Iterator[ast.expr]:
        """What the cases of a match compare its subject with, or what lies there inside of it."""
        for part in (part for case in match.cases for part in walk(case.pattern)):
            at = self.captured(part) if isinstance(part, ast.MatchValue) else None
            if at is not None and len(at.way) == len(way) and all(map(meets, at.way, way)):
                yield part.value  # type: ignore[attr-defined]

    # -- pieces -----------------------------------------------------------------------------

    def _step(self, key: ast.expr | None) -> Step:
        """The step that a subscript or a key of a table is."""
        value = self._source.constant(key)
        return (
            value if isinstance(value, (int, str)) and not isinstance(value, bool) else Part.VALUE
        )

    def _position(self, owner: ast.AST, node: ast.AST) -> int:
        """The place of an element in its list, of a value in its table; -1 for a key."""
        places = self._positions.get(owner)
        if places is None:
            items: list[ast.expr] = owner.values if isinstance(owner, ast.Dict) else owner.elts  # type: ignore[attr-defined]
            places = self._positions[owner] = {item: place for place, item in enumerate(items)}
        return places.get(node, -1)

    def _named_attribute(self, name: str) -> Cell:
        self._find_attributes(name)
        return self._cell("any attribute", None, name)

    def is_value_of_member(self, node: ast.Attribute) -> bool:
        """May it be ``member.value``, in a file with an enumeration?"""
        return node.attr == "value" and bool(self._enumerations)

    @cached_property
    def _enumerations(self) -> list[ast.ClassDef]:
        return [each for each in self._source.index.statements(ast.ClassDef) if is_enum(each)]

    def members(self, node: ast.AST | None) -> list[ast.expr]:
        """The values of an enumeration that an expression names, or of which ``self`` is a member."""
        if not self._enumerations or not isinstance(node, ast.expr):
            return []
        owner = self.calls.class_around(node) if self.calls.is_self(node) else self.calls.class_named(node)  # fmt: skip
        return (
            [s.value for s in owner.body if isinstance(s, ast.Assign)]
            if owner in self._enumerations
            else []
        )

    def enumeration(self, call: ast.Call) -> ast.ClassDef | None:
        """The enumeration whose member a call gives, by its value: ``Kind("cuda")``."""
        owner = self.calls.class_named(call.func) if self._enumerations else None
        return owner if owner in self._enumerations and len(call.args) == 1 else None


def is_enum(owner: ast.ClassDef) -> bool:
    return any(last_name(base).endswith(("Enum", "Flag")) for base in owner.bases)
