"""What names are bound to in one file: assignments, loops, parameters, by Python's rules of scope."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, eq=False)
class Binding:
    """One value that a name gets: the expression itself, or with ``element`` each element of it."""

    value: ast.expr | None
    element: bool = False
    parameter: ast.arg | None = None
    function: Function | None = None


@dataclass(eq=False)
class Scope:
    """The names of a module, function, class or comprehension."""

    outer: Scope | None
    is_class: bool = False
    is_comprehension: bool = False
    names: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)  #: ``global`` and ``nonlocal`` names


class Scopes:
    """The scopes of one file; asked by node. ``parents`` maps every node to the node that holds it."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.functions: dict[str, list[Function]] = {}
        self.calls: dict[str, list[ast.Call]] = {}
        self.attributes: dict[str, list[Binding]] = {}  #: values given to an attribute of this name
        self.classes: dict[str, list[Scope]] = {}
        self.added: dict[str, list[ast.expr]] = {}  #: values put into a collection of this name
        self.keys: dict[
            str, list[ast.expr]
        ] = {}  #: keys that a table of this name is asked for or given
        self._module = Scope(None)
        self._of: dict[ast.AST, Scope] = {}
        self._enter(tree, self._module)

    def bindings(self, name: ast.Name) -> list[Binding]:
        """What a name may be bound to where it stands; empty when the file does not say."""
        scope: Scope | None = self._of.get(name, self._module)
        first = True
        while scope is not None:
            if name.id in scope.elsewhere:
                scope = self._module if scope.elsewhere[name.id] == "global" else scope.outer
                first = False
                continue
            if name.id in scope.names and (first or not scope.is_class):
                return scope.names[name.id]
            scope, first = scope.outer, False
        return []

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, from the inside out."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    # -- reading the file -------------------------------------------------------------------

    def _enter(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            self._visit(child, scope)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Name):
            self._of[node] = scope
        elif isinstance(node, _FUNCTIONS):
            self._function(node, scope)
            return
        elif isinstance(node, ast.ClassDef):
            scope.names.setdefault(node.name, []).append(Binding(None))
            inner = Scope(scope, is_class=True)
            self.classes.setdefault(node.name, []).append(inner)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                self._visit(child, inner if child in node.body else scope)
            return
        elif isinstance(node, _COMPREHENSIONS):
            inner = Scope(scope, is_comprehension=True)
            for generator in node.generators:
                self._bind(generator.target, generator.iter, inner, element=True)
            self._enter(node, inner)
            return
        else:
            self._binds(node, scope)
        if isinstance(node, ast.Call):
            called = node.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            self.calls.setdefault(name, []).append(node)
            if isinstance(called, ast.Attribute) and node.args:
                if name in ("add", "append"):
                    self.added.setdefault(last_name(called.value), []).append(node.args[0])
                elif name == "setdefault":
                    self.keys.setdefault(last_name(called.value), []).append(node.args[0])
        elif isinstance(node, ast.Subscript):
            self.keys.setdefault(last_name(node.value), []).append(node.slice)
        self._enter(node, scope)

    def _function(self, node: Function, scope: Scope) -> None:
        inner = Scope(scope)
        if not isinstance(node, ast.Lambda):
            scope.names.setdefault(node.name, []).append(Binding(None, function=node))
            self.functions.setdefault(node.name, []).append(node)
        args = node.args
        every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
        for argument in filter(None, every):
            default = _default(argument, args)
            inner.names[argument.arg] = [Binding(default, parameter=argument, function=node)]
        own = node.body if isinstance(node.body, list) else [node.body]
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            self._visit(child, inner if child in own else scope)

    def _binds(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value, scope)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, node.value, scope)
        elif isinstance(node, ast.NamedExpr):
            while scope.is_comprehension and scope.outer is not None:
                scope = scope.outer
            self._bind(node.target, node.value, scope)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self._bind(node.target, node.iter, scope, element=True)
        elif isinstance(node, ast.AugAssign):
            self._bind(node.target, None, scope)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, None, scope)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                scope.names.setdefault(name, []).append(Binding(None))
        elif isinstance(node, ast.Global | ast.Nonlocal):
            kind = "global" if isinstance(node, ast.Global) else "nonlocal"
            scope.elsewhere.update(dict.fromkeys(node.names, kind))

    def _bind(
        self, target: ast.expr, value: ast.expr | None, scope: Scope, *, element: bool = False
    ) -> None:
        if isinstance(target, ast.Name):
            place = self._module if scope.elsewhere.get(target.id) == "global" else scope
            place.names.setdefault(target.id, []).append(Binding(value, element))
        elif isinstance(target, ast.Attribute):
            self.attributes.setdefault(target.attr, []).append(Binding(value, element))
        elif isinstance(target, ast.Tuple | ast.List):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and not element:
                values = [*value.elts, *values][: len(values)]
            for one, its in zip(target.elts, values, strict=True):
                self._bind(one, its, scope)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, None, scope)


def last_name(node: ast.AST) -> str:
    """``table`` of ``table`` and of ``self.table``; empty for what has no name."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _default(argument: ast.arg, args: ast.arguments) -> ast.expr | None:
    positional = [*args.posonlyargs, *args.args]
    pairs = list(zip(reversed(positional), reversed(args.defaults), strict=False))
    pairs += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d]
    return next((value for one, value in pairs if one is argument), None)
