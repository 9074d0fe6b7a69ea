"""Who is bound to what: one table of scopes and bindings for a module, built in one pass.

Only what Python's own rules say: class scopes are not seen from nested functions, ``global`` and
``nonlocal`` are followed, comprehensions are scopes of their own.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal

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
    outer: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, _FUNCTIONS)

    def add(self, binding: Binding) -> None:
        scope: Scope = self
        if binding.name in self.outer and self.parent is not None:
            scope = self.parent
            while scope.parent is not None and (
                scope.is_class or binding.name not in scope.bindings
            ):
                scope = scope.parent
        scope.bindings.setdefault(binding.name, []).append(binding)

    def lookup(self, name: str) -> list[Binding]:
        """Every binding of ``name`` as seen from here; empty for builtins and unknown names."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            if (first or not scope.is_class) and name in scope.bindings:
                return scope.bindings[name]
            first = False
            scope = scope.parent
        return []


@dataclass(slots=True)
class Table:
    """What one pass over the tree yields."""

    root: Scope
    parents: dict[ast.AST, ast.AST]
    scopes: dict[ast.AST, Scope]
    imports: list[ast.Import | ast.ImportFrom]
    order: list[ast.AST]


def build(tree: ast.Module) -> Table:
    """The scope table of ``tree``, with each node's parent and the nodes in source order."""
    root = Scope(tree, None)
    table = Table(root, {}, {tree: root}, [], [])
    _Builder(table).body(tree, root)
    return table


class _Builder:
    def __init__(self, table: Table) -> None:
        self.table = table

    def body(self, node: ast.AST, scope: Scope) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(node, scope)]
        table = self.table
        while stack:
            node, scope = stack.pop()
            table.order.append(node)
            inner = self._enter(node, scope)
            children: list[tuple[ast.AST, Scope]] = []
            for name, value in ast.iter_fields(node):
                where = inner if inner is not scope and _inside(node, name) else scope
                for child in value if isinstance(value, list) else (value,):
                    if isinstance(child, ast.AST):
                        table.parents[child] = node
                        children.append((child, where))
            stack.extend(reversed(children))

    def _enter(self, node: ast.AST, scope: Scope) -> Scope:
        """Records what ``node`` binds; returns the scope of its body."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            kind: BindingKind = "class" if isinstance(node, ast.ClassDef) else "def"
            scope.add(Binding(node.name, kind, node))
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef, *_COMPREHENSIONS)):
            inner = Scope(node, scope)
            self.table.scopes[node] = inner
            if isinstance(node, _FUNCTIONS):
                self._parameters(node.args, inner)
                if not isinstance(node, ast.Lambda):
                    inner.outer |= _outer_names(node)
            return inner
        if isinstance(node, ast.Import):
            self.table.imports.append(node)
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                qualified = alias.name if alias.asname else bound
                scope.add(Binding(bound, "import", alias, qualified=qualified))
        elif isinstance(node, ast.ImportFrom):
            self.table.imports.append(node)
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                if alias.name != "*":
                    joined = f"{base}.{alias.name}" if base.strip(".") else base + alias.name
                    scope.add(
                        Binding(alias.asname or alias.name, "import", alias, qualified=joined)
                    )
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._target(target, node.value, scope, node, "assign")
        elif isinstance(node, ast.AnnAssign):
            self._target(node.target, node.value, scope, node, "assign")
        elif isinstance(node, ast.AugAssign):
            self._target(node.target, None, scope, node, "other")
        elif isinstance(node, ast.NamedExpr):
            owner = scope
            while isinstance(owner.node, _COMPREHENSIONS) and owner.parent is not None:
                owner = owner.parent
            self._target(node.target, node.value, owner, node, "assign")
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._target(node.target, node.iter, scope, node, "for")
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._target(node.optional_vars, node.context_expr, scope, node, "with")
        elif isinstance(node, ast.ExceptHandler) and node.name:
            scope.add(Binding(node.name, "except", node))
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            scope.add(Binding(node.name, "other", node))
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self._target(target, None, scope, node, "other")
        return scope

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


def _inside(node: ast.AST, fieldname: str) -> bool:
    """Whether a child field is evaluated in the node's own scope rather than the enclosing one."""
    if isinstance(node, _COMPREHENSIONS):
        return True
    if isinstance(node, ast.Lambda):
        return fieldname == "body"
    return fieldname in ("body", "type_params")


def _outer_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    names: set[str] = set()
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            names.update(node.names)
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))
    return names
