"""Who is bound to what: scopes and bindings, by Python's own rules.

Class scopes are not seen from nested functions, ``global`` and ``nonlocal`` are followed, lambdas and comprehensions
are scopes of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

BindingKind = Literal["import", "assign", "for", "with", "param", "def", "class", "except", "other"]

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True, eq=False)
class Binding:
    """One place that gives a name a value.

    ``value`` is the expression assigned, when there is exactly one (``x = EXPR``, ``x: T = EXPR``,
    a parameter's default, ``with EXPR as x``, ``for x in EXPR``); ``qualified`` the dotted name that an import gives.
    A binding does not point to its scope, which points to it: without such circles a file's tree is freed when nobody holds it.
    """

    name: str
    kind: BindingKind
    node: ast.AST
    value: ast.expr | None = None
    qualified: str | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class, function, lambda or comprehension with the names bound in it."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    #: Names under ``global`` and under ``nonlocal``.
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

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
            found = scope.bindings.get(name)
            if found is not None and (first or not scope.is_class):
                return found
            first = False
            scope = scope.parent
        return _NONE

    def _root(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


_NONE: list[Binding] = []


# -- what gives a name a value --------------------------------------------------------------


def bind_target(
    target: ast.expr,
    value: ast.expr | None,
    scope: Scope,
    node: ast.AST,
    kind: BindingKind,
) -> None:
    """Binds the names of an assignment's target; a tuple of as many values is taken apart."""
    if isinstance(target, ast.Name):
        scope.add(Binding(target.id, kind, node, value))
    elif isinstance(target, ast.Starred):
        bind_target(target.value, None, scope, node, kind)
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
            bind_target(element, part, scope, node, kind if part is not None else "other")


def bind_parameters(args: ast.arguments, inner: Scope) -> None:
    """Binds parameters in the scope of their function."""
    for arg, default in parameters(args):
        inner.add(Binding(arg.arg, "param", arg, default))
    for extra in (args.vararg, args.kwarg):
        if extra is not None:
            inner.add(Binding(extra.arg, "param", extra))


def parameters(args: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Every parameter but ``*args`` and ``**kwargs``, with its default."""
    positional = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
    yield from zip(positional, [*defaults, *args.defaults], strict=True)
    yield from zip(args.kwonlyargs, args.kw_defaults, strict=True)


def bind_import(node: ast.Import, scope: Scope) -> Iterator[Binding]:
    """What the statement binds, bound."""
    for alias in node.names:
        bound = alias.asname or alias.name.partition(".")[0]
        qualified = alias.name if alias.asname else bound
        binding = Binding(bound, "import", alias, qualified=qualified)
        scope.add(binding)
        yield binding


def bind_import_from(node: ast.ImportFrom, scope: Scope) -> Iterator[Binding]:
    """What the statement binds, bound."""
    base = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name != "*":
            joined = f"{base}.{alias.name}" if base.strip(".") else base + alias.name
            binding = Binding(alias.asname or alias.name, "import", alias, qualified=joined)
            scope.add(binding)
            yield binding
