"""Who is bound to what: one table of scopes and bindings for a module, built in one pass.

Only what Python's own rules say: class scopes are not seen from nested functions, ``global`` and
``nonlocal`` are followed, comprehensions are scopes of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

BindingKind = Literal["import", "assign", "for", "with", "param", "def", "class", "except", "other"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One place that gives a name a value.

    ``value`` is the expression assigned, when there is exactly one (``x = EXPR``, ``x: T = EXPR``,
    a parameter's default, ``with EXPR as x``, ``for x in EXPR``); ``qualified`` the dotted name that an import gives.
    """

    name: str
    kind: BindingKind
    node: ast.AST
    value: ast.expr | None = None
    qualified: str | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class, function or comprehension with the names bound in it."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    #: Names under ``global`` and under ``nonlocal``.
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, _FUNCTIONS)

    def add(self, binding: Binding) -> None:
        owner = self
        if binding.name in self.globals:
            owner = self._root()
        elif binding.name in self.nonlocals and self.parent is not None:
            owner = self.parent
            while owner.parent is not None and (
                owner.is_class or binding.name not in owner.bindings
            ):
                owner = owner.parent
        owner.bindings.setdefault(binding.name, []).append(binding)

    def lookup(self, name: str) -> list[Binding]:
        """Every binding of ``name`` as seen from here; empty for builtins and unknown names."""
        scope: Scope | None = self._root() if name in self.globals else self
        first = True
        while scope is not None:
            if name in scope.bindings and (first or not scope.is_class):
                return scope.bindings[name]
            first = False
            scope = scope.parent
        return []

    def _root(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass(slots=True)
class Table:
    """What one pass over the tree yields. Contexts and operators are no nodes of interest."""

    root: Scope
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    #: The scope that a node opens.
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    #: The scope that a name is looked up in.
    names: dict[ast.Name, Scope] = field(default_factory=dict)
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    #: The f-strings, outer ones before those that they hold.
    formatted: list[ast.JoinedStr] = field(default_factory=list)
    order: list[ast.AST] = field(default_factory=list)


def build(tree: ast.Module) -> Table:
    """The scope table of ``tree``, with each node's parent and the nodes in source order.

    One loop without recursion: this and the parser are most of the time that a file takes.
    """
    root = Scope(tree, None)
    table = Table(root, scopes={tree: root})
    binder = _Binder(table)
    enter, opens, fields = binder.binders, _OPENS, _FIELDS
    leaves = _LEAVES
    parents, names, order = table.parents, table.names, table.order
    stack: list[tuple[ast.AST, Scope]] = [(tree, root)]
    pop, push, see = stack.pop, stack.append, order.append
    while stack:
        node, scope = pop()
        see(node)
        kind = node.__class__
        if kind is ast.Name:
            names[node] = scope  # type: ignore[index]
            continue
        if kind in leaves:
            continue
        bind = enter.get(kind)
        if bind is not None:
            bind(node, scope)
        inside: tuple[str, ...] = ()
        inner = scope
        if kind in opens:
            inside = opens[kind]
            inner = table.scopes[node]
        for name in fields[kind]:
            value = getattr(node, name, None)
            if value is None:
                continue
            where = inner if name in inside else scope
            if value.__class__ is list:
                for child in reversed(value):
                    if child is not None:
                        parents[child] = node
                        push((child, where))
            else:
                parents[value] = node
                push((value, where))
    return table


_NO_NODES = frozenset(
    [
        "ctx",
        "op",
        "ops",
        "kind",
        "level",
        "module",
        "asname",
        "type_comment",
        "is_async",
        "simple",
        "conversion",
        "id",
        "attr",
        "kwd_attrs",
        "tag",
        "type_ignores",
        "rest",
    ]
)
_NAMED = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.alias,
)  # fmt: skip


class _Fields(dict[type, tuple[str, ...]]):
    """What holds nodes in a node of a class, the last first, because a stack turns it round."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        return self.setdefault(kind, _fields(kind))


_FIELDS = _Fields()


def _fields(kind: type) -> tuple[str, ...]:
    names = [name for name in kind._fields if name not in _NO_NODES]  # type: ignore[attr-defined]
    if issubclass(kind, (ast.Constant, ast.MatchSingleton)):
        names = []
    if issubclass(kind, (ast.Global, ast.Nonlocal)) or kind.__name__ in _TYPE_PARAMETERS:
        names = [name for name in names if name not in ("name", "names")]
    if issubclass(kind, _NAMED):
        names.remove("name")
    if issubclass(kind, (ast.arg, ast.keyword)):
        names.remove("arg")
    # As the source has them: decorators and what stands in the header before the body.
    header = [
        name for name in ("decorator_list", "type_params", "args", "returns") if name in names
    ]
    if "body" in names and "decorator_list" in names:
        names = [*header, *(name for name in names if name not in header)]
    return tuple(reversed(names))


#: Without nodes below them, and binding nothing.
_LEAVES = frozenset(
    [ast.Constant, ast.alias, ast.Pass, ast.Break, ast.Continue, ast.MatchSingleton]
)
_TYPE_PARAMETERS = frozenset({"TypeVar", "ParamSpec", "TypeVarTuple"})
_BODY = ("body", "type_params")
#: Which fields of a node that opens a scope are evaluated inside it.
_OPENS: dict[type, tuple[str, ...]] = {
    ast.FunctionDef: _BODY,
    ast.AsyncFunctionDef: _BODY,
    ast.ClassDef: _BODY,
    ast.Lambda: ("body",),
    **dict.fromkeys(_COMPREHENSIONS, ("elt", "key", "value", "generators")),
}


class _Binder:
    """What the nodes that give names a value do to the table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.binders: dict[type, Callable[[Any, Scope], None]] = {
            ast.FunctionDef: self.function,
            ast.AsyncFunctionDef: self.function,
            ast.ClassDef: self.class_,
            ast.Lambda: self.lambda_,
            **dict.fromkeys(_COMPREHENSIONS, self.opened),
            ast.Import: self.import_,
            ast.ImportFrom: self.import_from,
            ast.Assign: self.assign,
            ast.AnnAssign: self.annotated,
            ast.AugAssign: self.changed,
            ast.NamedExpr: self.walrus,
            ast.For: self.loop,
            ast.AsyncFor: self.loop,
            ast.comprehension: self.loop,
            ast.withitem: self.with_,
            ast.ExceptHandler: self.named,
            ast.MatchAs: self.named,
            ast.MatchStar: self.named,
            ast.MatchMapping: self.rest,
            ast.Delete: self.delete,
            ast.Global: self.global_,
            ast.Nonlocal: self.nonlocal_,
            ast.JoinedStr: self.formatted,
        }

    def opened(self, node: ast.AST, scope: Scope) -> None:
        self.table.scopes[node] = Scope(node, scope)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        scope.add(Binding(node.name, "def", node))
        self.lambda_(node, scope)

    def class_(self, node: ast.ClassDef, scope: Scope) -> None:
        scope.add(Binding(node.name, "class", node))
        self.opened(node, scope)

    def lambda_(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope
    ) -> None:
        inner = self.table.scopes[node] = Scope(node, scope)
        self._parameters(node.args, inner)

    def import_(self, node: ast.Import, scope: Scope) -> None:
        self.table.imports.append(node)
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            qualified = alias.name if alias.asname else bound
            scope.add(Binding(bound, "import", alias, qualified=qualified))

    def import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        self.table.imports.append(node)
        base = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name != "*":
                joined = f"{base}.{alias.name}" if base.strip(".") else base + alias.name
                scope.add(Binding(alias.asname or alias.name, "import", alias, qualified=joined))

    def assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            self._target(target, node.value, scope, node, "assign")

    def annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        self._target(node.target, node.value, scope, node, "assign")

    def changed(self, node: ast.AugAssign, scope: Scope) -> None:
        self._target(node.target, None, scope, node, "other")

    def walrus(self, node: ast.NamedExpr, scope: Scope) -> None:
        while isinstance(scope.node, _COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        self._target(node.target, node.value, scope, node, "assign")

    def loop(self, node: ast.For | ast.AsyncFor | ast.comprehension, scope: Scope) -> None:
        self._target(node.target, node.iter, scope, node, "for")

    def with_(self, node: ast.withitem, scope: Scope) -> None:
        if node.optional_vars is not None:
            self._target(node.optional_vars, node.context_expr, scope, node, "with")

    def named(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name:
            scope.add(
                Binding(
                    node.name, "except" if isinstance(node, ast.ExceptHandler) else "other", node
                )
            )

    def rest(self, node: ast.MatchMapping, scope: Scope) -> None:
        if node.rest:
            scope.add(Binding(node.rest, "other", node))

    def delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            self._target(target, None, scope, node, "other")

    def formatted(self, node: ast.JoinedStr, scope: Scope) -> None:
        self.table.formatted.append(node)

    def global_(self, node: ast.Global, scope: Scope) -> None:
        if scope.parent is not None:
            scope.globals.update(node.names)

    def nonlocal_(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.nonlocals.update(node.names)

    def _target(
        self,
        target: ast.expr,
        value: ast.expr | None,
        scope: Scope,
        node: ast.AST,
        kind: BindingKind,
    ) -> None:
        if isinstance(target, ast.Name):
            scope.add(Binding(target.id, kind, node, value))
        elif isinstance(target, ast.Starred):
            self._target(target.value, None, scope, node, kind)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if (
                kind == "assign"
                and isinstance(value, (ast.Tuple, ast.List))
                and len(value.elts) == len(target.elts)
                and not any(isinstance(e, ast.Starred) for e in (*value.elts, *target.elts))
            ):
                values = list(value.elts)
            for element, part in zip(target.elts, values, strict=True):
                self._target(element, part, scope, node, kind if part is not None else "other")

    def _parameters(self, args: ast.arguments, scope: Scope) -> None:
        positional = [*args.posonlyargs, *args.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
        for arg, default in zip(positional, [*defaults, *args.defaults], strict=True):
            scope.add(Binding(arg.arg, "param", arg, default))
        for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            scope.add(Binding(arg.arg, "param", arg, kw_default))
        for extra in (args.vararg, args.kwarg):
            if extra is not None:
                scope.add(Binding(extra.arg, "param", extra))


def evaluated_inside(node: ast.AST, fieldname: str) -> bool:
    """Whether a child field is evaluated in the scope that the node opens, not in the one around it."""
    return fieldname in _OPENS.get(node.__class__, ())
