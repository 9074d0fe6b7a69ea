"""What calls reach, within one file: the functions, which argument is which parameter, what comes back."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hpushim.pycode.answers import Answers, Circular
from hpushim.pycode.places import FUNCTIONS, At, Cell, Edge, Function, Part, Way, last_name
from hpushim.pycode.scope import parameters
from hpushim.pycode.walk import walk

if TYPE_CHECKING:
    from hpushim.pycode.cells import Cells
    from hpushim.pycode.source import Source

#: What is called where an object is: by Python, and by torch's modules.
_CALLED = ("__call__", "forward")
#: Calls that have a function called, at once or later, with the arguments behind it: by the place of the function.
_BEHIND = {
    "partial": 0,
    "partialmethod": 0,
    "submit": 0,
    "to_thread": 0,
    "call_soon": 0,
    "run_in_executor": 1,
}
#: Calls that take the arguments of the function in a list and a table.
_LISTED = frozenset(
    ("Thread", "Process", "Timer", "apply", "apply_async", "spawn", "start_processes")
)
#: Of these the function gets a number first.
_NUMBERED = frozenset(("spawn", "start_processes"))
#: The methods that Python calls for an operator or a statement, with the nodes for which it does.
_CALLING: dict[str, tuple[type[ast.AST], ...]] = {
    "__getitem__": (ast.Subscript,),
    "__contains__": (ast.Compare,),
    "__eq__": (ast.Compare,),
    "__str__": (ast.FormattedValue, ast.Call),
    "__repr__": (ast.FormattedValue, ast.Call),
    "__enter__": (ast.withitem,),
    "__aenter__": (ast.withitem,),
    "__iter__": (ast.For, ast.AsyncFor, ast.comprehension),
}
_SHOWN = frozenset(("str", "repr", "format"))
#: Calls that call their argument for each item.
_LOOPS = frozenset(("map", "filter", "sorted", "min", "max"))
#: The edges along which a function keeps being called by a name.
_NAMED = frozenset(("name", "attribute", "assigned", "choice", "item", "loop", "default"))
#: What makes an object.
_MADE = ("__init__", "__new__")
_DISPATCHED = frozenset(("singledispatch", "singledispatchmethod"))
_PROPERTIES = frozenset(("property", "cached_property", "lazyproperty"))
_Classes = frozenset[ast.ClassDef]
_NO_CLASS: _Classes = frozenset()


class Target(NamedTuple):
    """A function that a call may reach, and how many of its first parameters are given already (``self``, those of a partial)."""

    function: Function
    given: int = 0


class Given(NamedTuple):
    """What a call gives a parameter: ``at`` lies at ``way`` inside of it (``*args`` and ``**kwargs`` hold theirs)."""

    parameter: str
    at: At
    way: Way = ()


class Application(NamedTuple):
    """A function and what it is given by who has it called; ``first`` parameters are given by the caller itself."""

    func: ast.expr
    args: list[ast.expr]
    keywords: list[ast.keyword]
    first: int = 0


class Applied(NamedTuple):
    """What a function is given arguments by: calls, partials, and calls that loop (``map``, ``sorted(key=…)``)."""

    calls: list[ast.Call]
    partials: list[ast.Call]
    loops: list[ast.Call]


class Calls(Circular):
    """The calls of one file. Read through :class:`~hpushim.pycode.values.Values`."""

    def __init__(self, source: Source, values: Cells) -> None:
        self._source = source
        self._values = values
        self._targets: dict[ast.Call, tuple[Target, ...]] = {}
        self._called: dict[str, dict[Function, list[ast.Call]]] = {}
        self._applied: dict[Function, Applied] = {}
        self._results: defaultdict[Function, list[ast.expr]] = defaultdict(list)
        self._yields: defaultdict[Function, list[ast.Yield | ast.YieldFrom]] = defaultdict(list)
        self._returns_read = self._yields_read = False
        self._methods: dict[ast.ClassDef, dict[str, ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self._families: dict[ast.ClassDef, ast.ClassDef] | None = None
        self._given: dict[tuple[ast.AST, Function], dict[str, list[Given]]] = {}
        self._having: dict[str, dict[ast.ClassDef, list[ast.ClassDef]]] = {}
        self._relatives: dict[ast.ClassDef, list[ast.ClassDef]] | None = None
        self._with: dict[str, list[ast.ClassDef]] | None = None
        self._called_implicitly: dict[ast.AST, list[Target]] | None = None
        self.settling = False
        self._instances = Answers[_Classes](self._own_classes, self._instance_edges)

    # -- classes ----------------------------------------------------------------------------

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose method ``node`` is in."""
        function = node if isinstance(node, FUNCTIONS) else self._source.function(node)
        while function is not None:
            above = self._source.parent(function)
            if isinstance(above, ast.ClassDef):
                return above
            function = self._source.function(function)
        return None

    def class_named(self, node: ast.expr | None) -> ast.ClassDef | None:
        """The class of this file that an expression names; also where it is written as a text."""
        name = node.id if isinstance(node, ast.Name) else getattr(node, "value", None)
        if not isinstance(name, str) or not any(
            isinstance(each, ast.ClassDef) for each in self._source.index.definitions(name)
        ):
            return None  # most names: a name may have thousands of bindings
        if isinstance(node, ast.Name):
            found = self._source.bindings(node)
        else:
            found = self._source.global_scope.lookup(name)
        return next((b.node for b in found if isinstance(b.node, ast.ClassDef)), None)

    def bases(self, owner: ast.ClassDef) -> list[ast.ClassDef]:
        """A class and its base classes in this file, the nearest first."""
        found = {owner: None}
        todo = [owner]
        for each in todo:
            for base in each.bases:
                named = self.class_named(base)
                if named is not None and named not in found:
                    found[named] = None
                    todo.append(named)
        return list(found)

    def family(self, owner: ast.ClassDef) -> ast.ClassDef:
        """One class that represents all that a class shares its attributes with: bases and subclasses."""
        if self._families is None:
            heads: dict[ast.ClassDef, ast.ClassDef] = {}
            for each in self._source.index.statements(ast.ClassDef):
                for base in each.bases:
                    named = self.class_named(base)
                    if named is not None:
                        heads[_head(heads, each)] = _head(heads, named)
            self._families = heads
        return _head(self._families, owner)

    def record_family(self, call: ast.Call) -> ast.ClassDef | None:
        """The family of the class that a call makes an object of."""
        owner = self.class_named(call.func)
        return self.family(owner) if owner is not None else None

    def method(self, owner: ast.ClassDef, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:  # fmt: skip
        """The method that a class has under a name, its own or that of a base class in this file."""
        for each in self.bases(owner):
            own = self._methods.get(each)
            if own is None:
                own = self._methods[each] = {s.name: s for s in each.body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef))}  # fmt: skip
            if name in own:
                return own[name]
        return None

    def classes_of(self, node: ast.expr) -> frozenset[ast.ClassDef]:
        """The classes of this file that a value may be an object of; empty when the file does not show one."""
        return self._instances.of(At(node))

    def _own_classes(self, at: At) -> _Classes:
        node = at.node
        found: ast.ClassDef | None = None
        if at.way:
            return _NO_CLASS
        if isinstance(node, ast.Call):
            found = self.class_named(node.func)
            if found is None and isinstance(node.func, ast.Name):
                for binding in self._source.bindings(node.func):
                    found = found or self.class_named(getattr(binding.node, "returns", None))
        elif isinstance(node, ast.Name) and self.is_self(node):
            found = self.class_around(node)
        elif isinstance(node, ast.arg):
            found = self.class_named(node.annotation)
        return frozenset((found,)) if found is not None else _NO_CLASS

    def _instance_edges(self, at: At) -> Iterator[Edge]:
        """The sources of a value, but for calls: what a method is must be known before what it returns."""
        node, values = at.node, self._values
        if at.way or isinstance(node, (ast.Call, ast.arg)):
            return
        if isinstance(node, Cell) and node.kind in ("variable", "attribute"):
            yield from values.stored(node)
        elif isinstance(node, (Cell, ast.Name, ast.Attribute, ast.IfExp, ast.BoolOp, ast.NamedExpr, ast.Await)):  # fmt: skip
            yield from values.sources(at)

    def is_self(self, node: ast.expr) -> bool:
        """Is the expression the object (or class) whose method it is in?"""
        if not isinstance(node, ast.Name):
            return False
        bindings = self._source.bindings(node)
        if not bindings or bindings[0].kind != "param":
            return False  # a parameter is bound before all else of its function
        args = self._source.parent(bindings[0].node)
        if not isinstance(args, ast.arguments):
            return False
        function = self._source.parent(args)
        return (
            [*args.posonlyargs, *args.args][:1] == [bindings[0].node]
            and isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
            and isinstance(self._source.parent(function), ast.ClassDef)
            and not _decorated(function, frozenset(("staticmethod",)))
        )

    def classes_with(self, name: str) -> list[ast.ClassDef]:
        """The classes whose bodies bind a name: their methods and fields."""
        if self._with is None:
            self._with = {}
            for owner in self._source.index.statements(ast.ClassDef):
                scope = self._source.scope_of(owner)
                for each in scope.bindings if scope is not None else ():
                    self._with.setdefault(each, []).append(owner)
        return self._with.get(name, [])

    def having(self, head: ast.AST | Cell | None, name: str) -> list[ast.ClassDef]:
        """The classes of a family whose bodies bind a name."""
        found = self._having.get(name)
        if found is None:
            found = self._having[name] = {}
            for owner in self.classes_with(name):
                found.setdefault(self.family(owner), []).append(owner)
        return found.get(head, []) if head is not None else []  # type: ignore[call-overload]

    def relatives(self, owner: ast.ClassDef) -> list[ast.ClassDef]:
        """The classes of a family."""
        if self._relatives is None:
            self._relatives = {}
            for each in self._source.index.statements(ast.ClassDef):
                self._relatives.setdefault(self.family(each), []).append(each)
        return self._relatives.get(self.family(owner), [])

    # -- what a call reaches ----------------------------------------------------------------

    def targets(self, call: ast.Call) -> tuple[Target, ...]:
        """The functions of this file that a call may reach; of ``partial(f, …)`` and ``Thread(target=f)`` those that it gives arguments to."""
        found = self._targets.get(call)
        if found is None:
            deferred = _deferred(call)
            reached: Iterable[Target]
            if deferred is not None:
                reached = (Target(f, given + deferred.first) for f, given in self._reached(deferred.func))  # fmt: skip
            else:
                reached = self._reached(call.func)
            found = self._targets[call] = tuple(dict.fromkeys(reached))
        return found

    def implicit(self, node: ast.AST) -> list[Target]:
        """The methods of this file that Python calls for an operator or a statement: ``o[k]``, ``k in o``, ``with o``, ``str(o)``."""
        return self._implicit.get(node, [])

    def implicit_calls(self, function: Function) -> list[ast.AST]:
        """Where Python calls a method for an operator or a statement."""
        return [] if self.settling else self._implicit_calls.get(function, [])

    @cached_property
    def _implicit_calls(self) -> dict[Function, list[ast.AST]]:
        found: dict[Function, list[ast.AST]] = {}
        for node, targets in self._implicit.items():
            for target in targets:
                found.setdefault(target.function, []).append(node)
        return found

    @property
    def _implicit(self) -> dict[ast.AST, list[Target]]:
        if self._called_implicitly is None:
            # Of which class an object is, is found out without them: edges found meanwhile are not kept.
            self._called_implicitly = {}
            self.settling = True
            try:
                self._called_implicitly = self._find_implicit()
            finally:
                self.settling = False
        return self._called_implicitly

    def _find_implicit(self) -> dict[ast.AST, list[Target]]:
        index = self._source.index
        known = [name for name in _CALLING if index.definitions(name)]
        found: dict[ast.AST, list[Target]] = {}
        kinds = {kind for name in known for kind in _CALLING[name]}
        for node in walk(self._source.tree) if known else ():
            for name, value in _called_for(node) if node.__class__ in kinds else ():
                if name not in known:
                    continue
                methods = [m for owner in self.classes_of(value) if (m := self.method(owner, name))]
                if methods:
                    found[node] = [Target(method, 1) for method in dict.fromkeys(methods)]
                    break
        return found

    def functions(self, node: ast.expr) -> list[Function]:
        """The functions of this file that an expression names, or is."""
        return [target.function for target in self._reached(node)]

    def _reached(self, func: ast.expr) -> Iterator[Target]:
        """Followed back through all but parameters and what calls return, which would request the calls again."""
        values = self._values
        seen: set[At] = {At(func)}
        todo: list[tuple[At, int]] = [(At(func), 0)]
        for at, given in todo:  # grows
            node = at.node
            if isinstance(node, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield Target(node, given)
                yield from (Target(each, given) for each in self._registered(node))
            elif isinstance(node, ast.ClassDef):
                made = self.method(node, "__init__") or self.method(node, "__new__")
                if made is not None:
                    yield Target(made, given + 1)
            elif isinstance(node, ast.Call):
                if (partial := _deferred(node)) is not None and _is_partial(node):
                    todo.append((At(partial.func), given + len(partial.args)))
            elif not isinstance(node, ast.arg) and not (isinstance(node, Cell) and node.kind == "returned"):  # fmt: skip
                if isinstance(node, ast.Attribute) and not at.way:
                    yield from (Target(f, given + n) for f, n in self._of_attribute(node))
                for edge in values.sources(at):
                    if isinstance(edge.node, Cell) and isinstance(edge.node.owner, ast.ClassDef) and edge.node.kind == "variable":  # fmt: skip
                        continue  # a method, which has been found with what it is called on
                    if edge.at not in seen and (edge.same or edge.how == "defined"):
                        seen.add(edge.at)
                        todo.append((edge.at, given))
        if isinstance(func, (ast.Name, ast.Attribute)):
            for owner in self.classes_of(func):
                for name in _CALLED:
                    method = self.method(owner, name)
                    if method is not None:
                        yield Target(method, 1)

    def _registered(self, function: Function) -> Iterator[Function]:
        """The functions of ``@function.register``, of which ``singledispatch`` calls one."""
        if isinstance(function, ast.Lambda) or not _decorated(function, _DISPATCHED):
            return
        for register in self._source.index.attributes("register"):
            above = self._source.parent(register)
            above = self._source.parent(above) if isinstance(above, ast.Call) else above
            if last_name(register.value) == function.name and isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):  # fmt: skip
                yield above

    def _of_attribute(self, node: ast.Attribute) -> Iterator[Target]:
        base, name = node.value, node.attr
        if isinstance(base, ast.Call) and last_name(base.func) == "super":
            around = self.class_around(node)
            for owner in self.bases(around)[1:] if around else ():
                method = self.method(owner, name)
                if method is not None:
                    yield Target(method, 1)
                    return
            return
        named = self.class_named(base)
        if named is not None:
            method = self.method(named, name)
            if method is not None:
                yield Target(method, int(_decorated(method, frozenset(("classmethod",)))))
            return
        owners = self.classes_of(base)
        for owner in owners:
            method = self.method(owner, name) or self._of_subclass(owner, name)
            if method is not None:
                yield Target(method, int(not _decorated(method, frozenset(("staticmethod",)))))
        if not owners and not self._is_foreign(base):
            yield from self._by_name(name)

    def _of_subclass(self, owner: ast.ClassDef, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:  # fmt: skip
        """A method that only subclasses have: what an abstract class calls."""
        return next((m for each in self.having(self.family(owner), name) if (m := self.method(each, name)) is not None), None)  # fmt: skip

    def _by_name(self, name: str) -> Iterator[Target]:
        """The method of an object that the file does not show: the one of this name, if there is one alone."""
        found = self._source.index.definitions(name)
        method = found[0] if len(found) == 1 and not name.startswith("__") else None
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and isinstance(self._source.parent(method), ast.ClassDef):  # fmt: skip
            yield Target(method, int(not _decorated(method, frozenset(("staticmethod",)))))

    def _is_foreign(self, node: ast.expr) -> bool:
        """Is the object a module, or part of one, or made by a function of one?"""
        while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and any(b.kind == "import" for b in self._source.bindings(node))  # fmt: skip

    # -- arguments --------------------------------------------------------------------------

    def given(self, call: ast.AST, target: Target) -> Iterator[Given]:
        """What a call gives the parameters of a function that it reaches."""
        function, skipped = target
        args = function.args
        given, keywords = _arguments(call)
        positional = [arg.arg for arg in (*args.posonlyargs, *args.args)][skipped:]
        #: What `**` cannot give: Python refuses a second value.
        taken = {keyword.arg for keyword in keywords}
        taken.update(arg.arg for arg in (*args.posonlyargs, *args.args)[:skipped])
        place, spread = 0, False
        for value in given:
            if isinstance(value, ast.Starred):
                for number, name in enumerate(positional[place:]):
                    yield Given(name, At(value.value, (Part.ITEM if spread else number,)))
                if args.vararg is not None:
                    yield Given(args.vararg.arg, At(value.value, (Part.ITEM,)), (Part.ITEM,))
                spread = True
            elif spread:
                for name in positional[place:]:
                    yield Given(name, At(value))
            elif place < len(positional):
                yield Given(positional[place], At(value))
                taken.add(positional[place])
                place += 1
            elif args.vararg is not None:
                yield Given(args.vararg.arg, At(value), (Part.ITEM,))
        known = [arg.arg for arg in (*args.args, *args.kwonlyargs)]
        for keyword in keywords:
            if keyword.arg is None:
                for name in known:
                    if name not in taken:
                        yield Given(name, At(keyword.value, (name,)))
            elif keyword.arg in known:
                yield Given(keyword.arg, At(keyword.value))
            elif args.kwarg is not None:
                yield Given(args.kwarg.arg, At(keyword.value), (keyword.arg,))

    def given_to(self, call: ast.AST, function: Function) -> dict[str, list[Given]]:
        """What a call gives each parameter of a function."""
        found = self._given.get((call, function))
        if found is None:
            found = self._given[call, function] = {}
            for target in (*(self.targets(call) if isinstance(call, ast.Call) else ()), *self.implicit(call)):  # fmt: skip
                if target.function is function:
                    for given in self.given(call, target):
                        found.setdefault(given.parameter, []).append(given)
        return found

    def place(self, function: Function, parameter: ast.arg) -> int:
        """The place of a parameter among those that are given by place."""
        return next((i for i, arg in enumerate((*function.args.posonlyargs, *function.args.args)) if arg is parameter), -1)  # fmt: skip

    # -- the calls of a function, and what comes back ---------------------------------------

    def calls_of(self, function: Function) -> list[ast.Call]:
        """The calls of this file that may reach a function."""
        return self.applied(function).calls

    def applied(self, function: Function) -> Applied:
        """What calls a function, gives it some of its arguments, or calls it for each item."""
        found = self._applied.get(function)
        if found is None:
            found = self._applied[function] = Applied([], [], [])
            for call in dict.fromkeys(self._users(function)):
                kind = last_name(call.func)
                if any(target.function is function for target in self.targets(call)):
                    (found.partials if _deferred(call) is not None else found.calls).append(call)
                elif kind in _LOOPS:
                    found.loops.append(call)
        return found

    def _users(self, function: Function) -> Iterator[ast.Call]:
        """The calls that a function comes to, by its own name, by that of a class, by an object."""
        above = self._source.parent(function)
        if isinstance(function, ast.Lambda):
            yield from self._going(function)
            return
        owner = above if isinstance(above, ast.ClassDef) else None
        if owner is None:
            yield from self._going(self._values.variable_of(self._scope_of(function), function.name))  # fmt: skip
            return
        yield from self._by_method(function.name).get(function, ())
        yield from self._going(self._values.variable_of(owner, function.name))
        if function.name in (*_MADE, *_CALLED):
            for each in self.relatives(owner):
                made = self._going(self._values.variable_of(self._scope_of(each), each.name))
                if function.name in _MADE:
                    yield from made
                else:
                    for call in list(made):
                        yield from self._going(call)

    def _by_method(self, name: str) -> dict[Function, list[ast.Call]]:
        """The calls of a name, by the functions that they reach."""
        found = self._called.get(name)
        if found is None:
            found = self._called[name] = {}
            for call in self._source.index.calls(name):
                for target in self.targets(call):
                    found.setdefault(target.function, []).append(call)
        return found

    def _going(self, start: ast.AST | Cell | None) -> Iterator[ast.Call]:
        """The calls that a function or an object comes to by its names: calls of it, partials, loops over it."""
        todo = [At(start)] if start is not None else []
        seen = set(todo)
        for at in todo:  # grows
            for edge in self._values.uses(at):
                call = edge.node
                if edge.how == "called" and isinstance(call, ast.Call):
                    yield call
                elif edge.how == "passed":
                    if isinstance(call, ast.keyword):
                        call = self._source.parent(call) or call
                    if isinstance(call, ast.Call) and (_deferred(call) is not None or last_name(call.func) in _LOOPS):  # fmt: skip
                        yield call
                        if _is_partial(call) and edge.at not in seen:
                            seen.add(At(call))
                            todo.append(At(call))
                elif edge.how in _NAMED and edge.at not in seen:
                    seen.add(edge.at)
                    todo.append(edge.at)

    def _scope_of(self, node: ast.AST) -> ast.AST:
        return self._source.scope(node).node

    def returns(self, function: Function) -> list[ast.expr]:
        """The expressions that a function returns."""
        if isinstance(function, ast.Lambda):
            return [function.body]
        if not self._returns_read:
            self._returns_read = True
            for statement in self._source.index.statements(ast.Return):
                around = self._source.function(statement)
                if statement.value is not None and around is not None:
                    self._results[around].append(statement.value)
        return self._results.get(function, [])

    def yields(self, function: Function) -> list[ast.Yield | ast.YieldFrom]:
        """Where a generator yields a value."""
        if not self._yields_read:
            self._yields_read = True
            for node in self._source.index.yields():
                around = self._source.function(node)
                if node.value is not None and around is not None:
                    self._yields[around].append(node)
        return self._yields.get(function, [])

    def is_property(self, function: ast.AST) -> bool:
        return isinstance(function, ast.FunctionDef) and _decorated(function, _PROPERTIES)

    def is_context(self, function: ast.AST) -> bool:
        """Does ``with`` enter what the function yields?"""
        return isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and _decorated(function, frozenset(("contextmanager", "asynccontextmanager")))  # fmt: skip

    def default(self, argument: ast.arg) -> ast.expr | None:
        """The default of a parameter."""
        args = self._source.parent(argument)
        if isinstance(args, ast.arguments):
            return next((d for arg, d in parameters(args) if arg is argument), None)
        return None


def _head(heads: dict[ast.ClassDef, ast.ClassDef], owner: ast.ClassDef) -> ast.ClassDef:
    way = []
    while heads.get(owner, owner) is not owner:
        way.append(owner)
        owner = heads[owner]
    for each in way:
        heads[each] = owner
    return owner


def _decorated(function: ast.FunctionDef | ast.AsyncFunctionDef, names: frozenset[str]) -> bool:
    return any(last_name(d.func if isinstance(d, ast.Call) else d) in names for d in function.decorator_list)  # fmt: skip


def _is_partial(call: ast.Call) -> bool:
    return last_name(call.func) in ("partial", "partialmethod") and bool(call.args)


def _deferred(call: ast.Call) -> Application | None:
    """The function that a call has called, now or later, and with what: ``partial(f, 1)``, ``Thread(target=f, args=(1,))``."""
    name, args = last_name(call.func), call.args
    place = _BEHIND.get(name)
    if place is not None and len(args) > place:
        return Application(args[place], args[place + 1 :], call.keywords)
    if name not in _LISTED:
        return None
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    func = named.get("target") or named.get("func") or named.get("fn") or named.get("function") or (args[0] if args else None)  # fmt: skip
    if func is None:
        return None
    behind = args[1:] if name in ("apply", "apply_async", *_NUMBERED) else []
    listed = named.get("args") or (behind[0] if behind else None)
    table = named.get("kwargs") or named.get("kwds") or (behind[1] if name not in _NUMBERED and behind[1:] else None)  # fmt: skip
    return Application(
        func,
        [ast.Starred(listed)] if listed is not None else [],
        [ast.keyword(None, table)] if table is not None else [],
        int(name in _NUMBERED),
    )


def _arguments(call: ast.AST) -> tuple[list[ast.expr], list[ast.keyword]]:
    """What a call gives, or an operator that is the call of a method."""
    match call:
        case ast.Call():
            if (deferred := _deferred(call)) is not None:
                return deferred.args, deferred.keywords
            return call.args, call.keywords
        case ast.Subscript():
            return [call.slice], []
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return [call.left], []
        case ast.Compare():
            return call.comparators, []
    return [], []


def _called_for(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The methods that Python may call for a node, the first that there is, and of which object."""
    match node:
        case ast.Subscript(ctx=ast.Load()):
            yield "__getitem__", node.value
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            yield "__contains__", node.comparators[0]
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()]):
            yield "__eq__", node.left
        case ast.FormattedValue() | ast.Call(func=ast.Name(), args=[_]):
            shown = node.value if isinstance(node, ast.FormattedValue) else node.args[0]
            if isinstance(node, ast.FormattedValue) or last_name(node.func) in _SHOWN:
                names = ("__str__", "__repr__")
                for name in names[getattr(node, "conversion", -1) == ord("r") or last_name(getattr(node, "func", None)) == "repr" :]:  # fmt: skip
                    yield name, shown
        case ast.withitem():
            yield "__enter__", node.context_expr
            yield "__aenter__", node.context_expr
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            yield "__iter__", node.iter
