"""What each kind of statement binds, taken into the index of a module."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpushim.pycode.scope import (
    Binding,
    Scope,
    bind_import,
    bind_import_from,
    bind_parameters,
    bind_target,
)
from hpushim.pycode.walk import walk

if TYPE_CHECKING:
    from hpushim.pycode.index import Index


def _function(index: Index, node: Any, scope: Scope) -> None:
    scope.add(Binding(node.name, "def", node))
    inner = index.scopes[node] = Scope(node, scope)
    bind_parameters(node.args, inner)


def _class(index: Index, node: ast.ClassDef, scope: Scope) -> None:
    scope.add(Binding(node.name, "class", node))
    index.scopes[node] = Scope(node, scope)


def _import(index: Index, node: ast.Import, scope: Scope) -> None:
    index.imports.append(node)
    index.import_bindings += bind_import(node, scope)


def _import_from(index: Index, node: ast.ImportFrom, scope: Scope) -> None:
    index.imports.append(node)
    index.import_bindings += bind_import_from(node, scope)


def _assign(index: Index, node: ast.Assign, scope: Scope) -> None:
    for target in node.targets:
        bind_target(target, node.value, scope, node, "assign")
        if target.__class__ is ast.Attribute:
            index.stores[target.attr].append(node.value)


def _annotated(index: Index, node: ast.AnnAssign, scope: Scope) -> None:
    bind_target(node.target, node.value, scope, node, "assign")
    if isinstance(node.target, ast.Attribute) and node.value is not None:
        index.stores[node.target.attr].append(node.value)


def _augmented(index: Index, node: ast.AugAssign, scope: Scope) -> None:
    bind_target(node.target, None, scope, node, "other")


def _loop(index: Index, node: Any, scope: Scope) -> None:
    bind_target(node.target, node.iter, scope, node, "for")


def _with(index: Index, node: Any, scope: Scope) -> None:
    for item in node.items:
        if item.optional_vars is not None:
            bind_target(item.optional_vars, item.context_expr, scope, item, "with")


def _handler(index: Index, node: ast.ExceptHandler, scope: Scope) -> None:
    if node.name:
        scope.add(Binding(node.name, "except", node))


def _case(index: Index, node: ast.match_case, scope: Scope) -> None:
    for part in walk(node.pattern):
        name = part.rest if isinstance(part, ast.MatchMapping) else getattr(part, "name", None)
        if name:
            scope.add(Binding(name, "other", part))


def _delete(index: Index, node: ast.Delete, scope: Scope) -> None:
    for target in node.targets:
        bind_target(target, None, scope, node, "other")


def _global(index: Index, node: ast.Global, scope: Scope) -> None:
    if scope.parent is not None:
        scope.globals.update(node.names)


def _nonlocal(index: Index, node: ast.Nonlocal, scope: Scope) -> None:
    scope.nonlocals.update(node.names)


def _type_alias(index: Index, node: Any, scope: Scope) -> None:
    bind_target(node.name, None, scope, node, "other")


#: By the class of a statement, handler or case: takes what it binds into an index, in a scope.
BINDERS: dict[Any, Callable[[Index, Any, Scope], None]] = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.ExceptHandler: _handler,
    ast.match_case: _case,
    ast.Delete: _delete,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    getattr(ast, "TypeAlias", None): _type_alias,
}
