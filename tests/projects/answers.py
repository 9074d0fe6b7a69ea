"""Who is asked for a device, and which values are true only because of the answer: plain :mod:`ast`, by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_ASKED = ("is_available", "device_count", "is_initialized")
Flags = dict[tuple[object, ...], "Owned"]


@dataclass(frozen=True)
class Owned:
    """The lines of the checks that a value being true, and being false, needs."""

    true: frozenset[int] = frozenset()
    false: frozenset[int] = frozenset()

    def __or__(self, other: Owned) -> Owned:
        return Owned(self.true | other.true, self.false | other.false)

    def __bool__(self) -> bool:
        return bool(self.true or self.false)

    def swapped(self) -> Owned:
        return Owned(self.false, self.true)


NOTHING = Owned()


class Source:
    """A tree with its parents, and the dotted names that its imports give."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes = list(ast.walk(tree))
        self.parents = {c: n for n in self.nodes for c in ast.iter_child_nodes(n)}
        self.names: dict[str, str] = {"torch": "torch"}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.names[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def dotted(self, node: ast.AST) -> str:
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return ""
        return ".".join([self.names[node.id], *reversed(parts)])

    def checks(self, word: str) -> Iterator[ast.AST]:
        """The expressions that ask for one kind of device."""
        for node in self.nodes:
            parent = self.parents.get(node)
            if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(
                getattr(node, "ctx", None), ast.Load
            ):
                asked = [f"torch.{word}.{name}" for name in _ASKED]
                named = not isinstance(parent, ast.Attribute) and self.dotted(node) in asked
                if named or (word == "cuda" and getattr(node, "attr", "") == "is_cuda"):
                    yield node
            elif (isinstance(node, ast.Compare) and _compares(node, word)) or (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("startswith", "__contains__", "count")
                and any(_spells(arg, word) for arg in node.args)
            ):
                yield node

    def scope(self, node: ast.AST | None) -> ast.AST | None:
        while node is not None:
            node = self.parents.get(node)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                return node
        return None


def _spells(node: ast.AST, word: str) -> bool:
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return any(_spells(item, word) for item in node.elts)
    if isinstance(node, ast.Call):  # torch.device("hpu")
        return any(_spells(item, word) for item in node.args)
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and bool(re.match(rf"{word}(:\d*)?$", node.value))
    )


def _compares(node: ast.Compare, word: str) -> bool:
    return any(_spells(side, word) for side in (node.left, *node.comparators))


class Truth:
    """Which values are true, or false, only because one of some checks is true."""

    def __init__(self, source: Source, checks: set[ast.AST], known: Flags | None = None) -> None:
        self._source = source
        self._checks = checks
        #: Values by where they are kept; ``known`` are those of other files.
        self._flags: Flags = dict(known or {})
        while True:
            known = dict(self._flags)
            for node in source.nodes:
                self._learn(node)
            if known == self._flags:
                return

    def shared(self) -> Flags:
        """What other files may read: names of the module, what functions return, attributes."""
        return {
            key: value
            for key, value in self._flags.items()
            if key[0] in ("returned", "attribute") or key[:2] == ("name", None)
        }

    def of(self, node: ast.AST | None) -> Owned:
        if node is None:
            return NOTHING
        if node in self._checks:
            return self._asked(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.of(node.operand).swapped()
        if isinstance(node, ast.BoolOp):
            return joined(self.of(value) for value in node.values)
        if isinstance(node, ast.IfExp):
            found = self.of(node.body) | self.of(node.orelse)
            test = self.of(node.test)
            if isinstance(node.orelse, ast.Constant) and not node.orelse.value:
                found |= Owned(true=test.true)
            if isinstance(node.body, ast.Constant) and not node.body.value:
                found |= Owned(true=test.false)
            return found
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.Call):
            return self._called(node)
        for key in self._keys(node):
            if key in self._flags:
                return self._flags[key]
        return NOTHING

    def _asked(self, node: ast.AST) -> Owned:
        line = frozenset([getattr(node, "lineno", 0)])
        if isinstance(node, ast.Compare) and isinstance(
            node.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot)
        ):
            return Owned(false=line)
        return Owned(true=line)

    def _compared(self, node: ast.Compare) -> Owned:
        """``count > 0``, ``flag is True``."""
        left, right = self.of(node.left), self.of(node.comparators[0])
        found = left or right
        value = node.comparators[0] if left else node.left
        if not isinstance(value, ast.Constant) or len(node.ops) > 1:
            return NOTHING
        swap = False
        match node.ops[0]:
            case ast.Eq() | ast.Is():
                swap = not value.value
            case ast.NotEq() | ast.IsNot():
                swap = bool(value.value)
            case ast.Lt() | ast.LtE():
                swap = bool(left)
            case ast.Gt() | ast.GtE():
                swap = not left
        return found.swapped() if swap else found

    def _called(self, node: ast.Call) -> Owned:
        name = last(node.func)
        if node.func in self._checks:
            return self._asked(node.func)
        if name in ("bool", "any", "int", "min", "max", "all", "str2bool", "len", "range"):
            return joined(self.of(arg) for arg in node.args)
        return self._flags.get(("returned", name), NOTHING) or self.of(node.func)

    # -- flags ------------------------------------------------------------------------------

    def _keys(self, node: ast.AST) -> Iterator[tuple[object, ...]]:
        if isinstance(node, ast.Name):
            scope = self._source.scope(node)
            while scope is not None:
                yield ("name", scope, node.id)
                scope = self._source.scope(scope)
            yield ("name", None, node.id)
        elif isinstance(node, ast.Attribute):
            yield ("attribute", node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield ("item", node.slice.value)

    def _add(self, key: tuple[object, ...], value: Owned) -> None:
        if value:
            self._flags[key] = self._flags.get(key, NOTHING) | value

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._store(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr, ast.AugAssign)) and node.value:
            self._store(node.target, node.value)
        elif isinstance(node, ast.If):
            self._switched(node)
        elif isinstance(node, ast.Return) and node.value is not None:
            function = self._source.scope(node)
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._returned(node, function.name)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self._defaults(node)
        elif isinstance(node, ast.Call):
            self._arguments(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant):
                    self._add(("item", key.value), self.of(value))

    def _store(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for one, other in zip(target.elts, value.elts, strict=True):
                    self._store(one, other)
            elif isinstance(value, ast.Call):
                for place, one in enumerate(target.elts):
                    found = self._flags.get(("returned", last(value.func), place), NOTHING)
                    self._put(one, found)
            return
        self._put(target, self.of(value))

    def _put(self, target: ast.expr, found: Owned) -> None:
        if isinstance(target, ast.Name):
            self._add(("name", self._source.scope(target), target.id), found)
        else:
            for key in self._keys(target):
                self._add(key, found)

    def _switched(self, node: ast.If) -> None:
        """``if check: flag = True``, ``if not check: flag = False``."""
        test = self.of(node.test)
        for block, needs in (
            (node.body, (test.true, test.false)),
            (node.orelse, (test.false, test.true)),
        ):
            for statement in block:
                if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                    value = statement.value.value
                    if value is None or isinstance(value, (bool, int)):
                        # what is set where the check is true, and what is kept there
                        true = needs[0] if value else needs[1]
                        false = needs[1] if value else needs[0]
                        for target in statement.targets:
                            self._put(target, Owned(true=true, false=false))

    def _returned(self, node: ast.Return, name: str) -> None:
        if isinstance(node.value, ast.Tuple):
            for place, item in enumerate(node.value.elts):
                self._add(("returned", name, place), self.of(item))
            return
        found = self.of(node.value)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
            # `if check: return True`
            parent = self._source.parents.get(node)
            if isinstance(parent, ast.If):
                test = self.of(parent.test)
                inside = test.true if node in parent.body else test.false
                found |= Owned(true=inside) if node.value.value else Owned(false=inside)
        self._add(("returned", name), found)
        self._add(("attribute", name), found)  # a property

    def _defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        args = node.args
        positional = [*args.posonlyargs, *args.args]
        pairs = list(zip(reversed(positional), reversed(args.defaults), strict=False))
        pairs += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d]
        for arg, default in pairs:
            self._add(("name", node, arg.arg), self.of(default))

    def _arguments(self, call: ast.Call) -> None:
        if last(call.func) == "add_argument":
            names = [a.value for a in call.args if isinstance(a, ast.Constant)]
            for keyword in call.keywords:
                if keyword.arg == "default" and names:
                    option = str(names[-1]).lstrip("-").replace("-", "_")
                    self._add(("attribute", option), self.of(keyword.value))
            return
        if not isinstance(call.func, ast.Name):
            return
        for node in self._source.nodes:
            if isinstance(node, ast.FunctionDef) and node.name == call.func.id:
                for arg, value in zip(node.args.args, call.args, strict=False):
                    self._add(("name", node, arg.arg), self.of(value))
                for keyword in call.keywords:
                    if keyword.arg:
                        self._add(("name", node, keyword.arg), self.of(keyword.value))


def joined(found: Iterable[Owned]) -> Owned:
    result = NOTHING
    for one in found:
        result |= one
    return result


def last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
