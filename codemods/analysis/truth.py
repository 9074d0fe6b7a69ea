"""Where the answer of a check leads: the code that runs only because it is true.

Followed through ``not``, ``and``, ``or`` and comparisons, names, attributes, defaults, options, arguments, pairs and what
functions return, to conditions, early returns, assertions, decorators that skip, filters of comprehensions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .callee import parameters_of, positional_of
from .names import word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Calls whose answer is as true as their argument.
_SAME = frozenset(["bool", "int", "any", "all", "min", "max", "len", "list", "tuple", "str2bool"])
#: Calls behind which nothing of the block runs.
_EXITS = frozenset(["exit", "_exit", "quit", "abort", "error"])
_ENDS = _EXITS | {"skip", "skipTest", "SkipTest", "fail", "xfail"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DECLARES = frozenset(["add_argument", "add_option", "add_flag", "option"])


class Truth:
    """What one check controls, where its answer begins at ``start`` and is turned round there unless ``true``."""

    def __init__(self, module: Module, start: ast.AST, *, true: bool) -> None:
        self._module = module
        #: The statements and expressions that run only because the check is true, and whether the program stops instead.
        self.roots: dict[ast.AST, bool] = {}
        #: Does the program stop where the check is false?
        self.demanded = False
        self._seen: set[tuple[ast.AST, bool]] = set()
        self._waiting: list[tuple[ast.AST, bool]] = [(start, true)]
        while self._waiting:
            node, polarity = self._waiting.pop()
            if (node, polarity) not in self._seen:
                self._seen.add((node, polarity))
                self._climb(node, true=polarity)

    def _follow(self, node: ast.AST, *, true: bool) -> None:
        self._waiting.append((node, true))

    def _root(self, nodes: Iterable[ast.AST], *, stops: bool = False) -> None:
        for node in nodes:
            self.roots[node] = stops and self.roots.get(node, True)

    # -- upwards ----------------------------------------------------------------------------

    def _climb(self, node: ast.AST, *, true: bool) -> None:
        parent = self._module.parent(node)
        match parent:
            case ast.UnaryOp(op=ast.Not()):
                self._follow(parent, true=not true)
            case ast.BoolOp():
                if isinstance(parent.op, ast.And) == true:
                    self._root(_behind(parent.values, node))
                self._follow(parent, true=true)
            case ast.Compare():
                swapped = _swapped(self._module, parent, node)
                if swapped is not None:
                    self._follow(parent, true=true != swapped)
            case ast.IfExp():
                self._choice(parent, node, true=true)
            case ast.If() | ast.While():
                self._branch(parent, true=true)
            case ast.Assert():
                if true and node is parent.test:
                    self.demanded = True
                    self._root(_behind(self._module.block(parent), parent), stops=True)
            case ast.comprehension():
                self._filtered(parent, node, true=true)
            case ast.For() | ast.AsyncFor():
                if node is parent.iter:
                    self._root(parent.body)
            case ast.MatchValue() | ast.MatchOr():
                self._follow(parent, true=true)
            case ast.match_case():
                self._root(parent.body)
            case ast.Call():
                self._called(parent, node, true=true)
            case ast.keyword():
                self._keyword(parent, true=true)
            case ast.arguments():
                self._default(parent, node, true=true)
            case ast.Dict():
                self._item(parent, node, true=true)
            case ast.Return():
                self._returned(parent, None, true=true)
            case ast.Tuple() | ast.List():
                self._member(parent, node, true=true)
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.AugAssign():
                self._assigned(parent, node, true=true)

    def _choice(self, parent: ast.IfExp, node: ast.AST, *, true: bool) -> None:
        if node is not parent.test:
            self._follow(parent, true=true)
            return
        chosen, other = (parent.body, parent.orelse) if true else (parent.orelse, parent.body)
        self._root([chosen])
        if isinstance(other, ast.Constant):
            constant = isinstance(chosen, ast.Constant)
            if not other.value:
                self._follow(parent, true=True)
            elif constant and not chosen.value:  # type: ignore[attr-defined]
                self._follow(parent, true=False)

    def _branch(self, parent: ast.If | ast.While, *, true: bool) -> None:
        chosen, other = (parent.body, parent.orelse) if true else (parent.orelse, parent.body)
        self._root(chosen)
        block = self._module.block(parent)
        if other and ends(other):
            self._root(_behind(block, parent), stops=_stops(other))
            self.demanded |= _stops(other)
        for inside, branch in ((True, chosen), (False, other)):
            for statement in branch:
                self._flag(statement, inside=inside)

    def _flag(self, statement: ast.stmt, *, inside: bool) -> None:
        """``if check: flag = True``, ``if not check: flag = False``, and the same with ``return``."""
        value = getattr(statement, "value", None)
        if not isinstance(value, ast.Constant) or not (value.value is None or isinstance(value.value, (bool, int))):  # fmt: skip
            return
        true = bool(value.value) == inside
        if isinstance(statement, ast.Return) and isinstance(value.value, bool):
            self._returned(statement, None, true=true)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            self._assigned(statement, value, true=true)

    def _filtered(self, parent: ast.comprehension, node: ast.AST, *, true: bool) -> None:
        above = self._module.parent(parent)
        if not true:
            return
        if isinstance(above, ast.DictComp):
            self._root([above.key, above.value])
        elif isinstance(above, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            self._root([above.elt])

    # -- calls ------------------------------------------------------------------------------

    def _called(self, call: ast.Call, node: ast.AST, *, true: bool) -> None:
        name = word(call.func)
        if node is call.func or name in _SAME or (name == "range" and true):
            self._follow(call, true=true)
        elif name.lower() in ("skipif", "skipunless"):
            if node is call.args[0] and true == (name.lower() == "skipunless"):
                self._skipping(call)
        elif name not in _DECLARES:
            place = next((i for i, arg in enumerate(call.args) if arg is node), -1)
            for args in parameters_of(self._module, call):
                positional = positional_of(self._module, args)
                if 0 <= place < len(positional):
                    self._parameter(args, positional[place].arg, true=true)

    def _keyword(self, keyword: ast.keyword, *, true: bool) -> None:
        call = self._module.parent(keyword)
        if not isinstance(call, ast.Call) or keyword.arg is None:
            return
        name = word(call.func)
        if name.lower() == "skipif" and keyword.arg == "condition":
            if not true:
                self._skipping(call)
        elif name in _DECLARES:
            if keyword.arg == "default":
                for arg in call.args:
                    text = self._module.constant(arg)
                    if isinstance(text, str):
                        self._attribute(text.lstrip("-").replace("-", "_"), true=true)
        else:
            for args in parameters_of(self._module, call):
                self._parameter(args, keyword.arg, true=true)

    def _default(self, args: ast.arguments, node: ast.AST, *, true: bool) -> None:
        positional = [*args.posonlyargs, *args.args]
        pairs = list(zip(reversed(positional), reversed(args.defaults), strict=False))
        pairs += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d]
        for arg, default in pairs:
            if default is node:
                self._parameter(args, arg.arg, true=true)

    def _parameter(self, args: ast.arguments, name: str, *, true: bool) -> None:
        owner = self._module.parent(args)
        inner = self._module.scope_of(owner) if owner is not None else None
        bound = inner.bindings.get(name) if inner else None
        for load in self._loads(name) if bound else ():
            if self._module.bindings(load) is bound:
                self._follow(load, true=true)

    def _skipping(self, node: ast.AST) -> None:
        """What a decorator or mark that skips without the check is put on."""
        parent = self._module.parent(node)
        if isinstance(parent, (*_FUNCTIONS, ast.ClassDef)):
            self._root(parent.body)
        elif isinstance(parent, (ast.List, ast.Tuple)):
            self._skipping(parent)
        elif isinstance(parent, ast.keyword) and parent.arg == "marks":
            call = self._module.parent(parent)
            self._root(call.args if isinstance(call, ast.Call) else ())
        elif isinstance(parent, ast.Call) and parent.func is node:  # skipUnless(…)(test)
            function = self._module.function(parent)
            for use in self._loads(function.name) if function else ():
                self._skipping(use)
        elif isinstance(parent, ast.Assign):
            for target in parent.targets:
                if word(target) == "pytestmark":
                    self._root(_behind(self._module.block(parent), parent))
                elif isinstance(target, ast.Name):
                    for use in self._loads(target.id):
                        self._skipping(use)

    # -- stored -----------------------------------------------------------------------------

    def _loads(self, name: str) -> Iterator[ast.Name]:
        return (n for n in self._module.index.names(name) if isinstance(n.ctx, ast.Load))

    def _assigned(self, statement: ast.AST, value: ast.AST, *, true: bool) -> None:
        if isinstance(statement, ast.NamedExpr):
            self._follow(statement, true=true)
        targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
        for target in targets:
            if target is not None and target is not value:
                self._stored(target, true=true)

    def _stored(self, target: ast.AST, *, true: bool) -> None:
        if isinstance(target, ast.Name):
            bound = self._module.scope(target).lookup(target.id)
            for load in self._loads(target.id):
                if self._module.bindings(load) is bound:
                    self._follow(load, true=true)
        elif isinstance(target, ast.Attribute):
            self._attribute(target.attr, true=true)
        elif isinstance(target, ast.Subscript):
            key = self._module.constant(target.slice)
            if isinstance(key, str):
                self._key(key, true=true)

    def _attribute(self, name: str, *, true: bool) -> None:
        for node in self._module.index.attributes(name):
            if isinstance(node.ctx, ast.Load):
                self._follow(node, true=true)

    def _item(self, table: ast.Dict, node: ast.AST, *, true: bool) -> None:
        place = next((i for i, value in enumerate(table.values) if value is node), -1)
        key = self._module.constant(table.keys[place]) if place >= 0 else None
        if isinstance(key, str):
            self._key(key, true=true)

    def _key(self, key: str, *, true: bool) -> None:
        """Where ``table["key"]`` is read."""
        for string in self._module.index.strings(key):
            above = self._module.parent(string)
            if string.value == key and isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Load):  # fmt: skip
                self._follow(above, true=true)

    def _member(self, parent: ast.Tuple | ast.List, node: ast.AST, *, true: bool) -> None:
        place = next(i for i, item in enumerate(parent.elts) if item is node)
        above = self._module.parent(parent)
        if isinstance(above, ast.Return):
            self._returned(above, place, true=true)
        elif isinstance(above, ast.Assign):
            for target in above.targets:
                self._stored(_part(target, place) or target, true=true)
        elif isinstance(above, ast.Call) and word(above.func) in _SAME:
            self._follow(above, true=true)

    def _returned(self, node: ast.Return, place: int | None, *, true: bool) -> None:
        function = self._module.function(node)
        if function is None:
            return
        for call in self._module.index.calls(function.name):
            if place is None:
                self._follow(call, true=true)
                continue
            above = self._module.parent(call)
            for target in above.targets if isinstance(above, ast.Assign) else ():
                part = _part(target, place)
                if part is not None:
                    self._stored(part, true=true)
        if place is None and any(word(d) in ("property", "cached_property") for d in function.decorator_list):  # fmt: skip
            self._attribute(function.name, true=true)


def _part(target: ast.AST, place: int) -> ast.AST | None:
    """The item of a target that takes one of several values."""
    if isinstance(target, (ast.Tuple, ast.List)) and place < len(target.elts):
        return target.elts[place]
    return None


def _behind(block: list[ast.stmt] | list[ast.expr], node: ast.AST) -> Iterator[ast.AST]:
    """What stands behind ``node`` in its block."""
    place = next((i for i, other in enumerate(block) if other is node), len(block))
    return iter(block[place + 1 :])


def _swapped(module: Module, compare: ast.Compare, node: ast.AST) -> bool | None:
    """Is ``count == 0`` true where ``count`` is false? None for a comparison that says neither."""
    if len(compare.ops) != 1:
        return None
    left = compare.left is node
    value = module.constant(compare.comparators[0] if left else compare.left)
    if not isinstance(value, (bool, int)) and value is not None:
        return None
    match compare.ops[0]:
        case ast.Eq() | ast.Is():
            return not value
        case ast.NotEq() | ast.IsNot():
            return bool(value)
        case ast.Lt() | ast.LtE():
            return left
        case ast.Gt() | ast.GtE():
            return not left
    return None


def ends(block: list[ast.stmt]) -> bool:
    """Does nothing behind the block run after it?"""
    last = block[-1]
    if isinstance(last, ast.If) and last.orelse:
        return ends(last.body) and ends(last.orelse)
    if isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
        return True
    return _leaves(last)


def _stops(block: list[ast.stmt]) -> bool:
    """Does the program stop in the block, where a test is not merely skipped?"""
    last = block[-1]
    if isinstance(last, ast.Raise):
        return "skip" not in ast.dump(last).lower()
    return _leaves(last, _EXITS)


def _leaves(statement: ast.stmt, names: frozenset[str] = _ENDS) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and word(call.func) in names
