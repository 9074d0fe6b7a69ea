"""Where the answer of a check leads: the code that runs only because it is true."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from hpushim.engine.python.module import Module
from hpushim.pycode.control import behind, branches, ends, stops
from hpushim.pycode.values import At, Edge, Values

from ..analysis.kernels import package_flags
from ..analysis.names import word

#: Calls whose answer is as true as their argument.
_SAME = frozenset(["bool", "int", "any", "all", "len", "str2bool"])
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Truth:
    """What one check controls, where its answer begins at ``start`` and is turned round there unless ``true``.

    The value graph says where the answer goes; where it is tested, the code behind the test is controlled by it.
    """

    def __init__(self, module: Module, start: ast.AST, *, true: bool) -> None:
        self._module = module
        self._values = module.view(Values)
        #: The statements and expressions that run only because the check is true, and whether the program stops instead.
        self.roots: dict[ast.AST, bool] = {}
        #: Does the program stop where the check is false?
        self.demanded = False
        #: May what it controls run without it: ``check or many``?
        self.shared = False
        self._seen: set[tuple[At, bool]] = set()
        self._waiting: list[tuple[At, bool]] = [(At(start), true)]
        while self._waiting:
            at, true = self._waiting.pop()
            if (at, true) not in self._seen:
                self._seen.add((at, true))
                for edge in self._values.uses(at):
                    self._go(edge, at, true=true)
                if isinstance(at.node, ast.pattern):
                    self._matched(at.node)

    def _follow(self, place: At | ast.AST, *, true: bool) -> None:
        self._waiting.append((place if isinstance(place, At) else At(place), true))

    def _root(self, nodes: Iterable[ast.AST], *, stop: bool = False) -> None:
        for node in nodes:
            self.roots[node] = stop and self.roots.get(node, True)

    def _go(self, edge: Edge, at: At, *, true: bool) -> None:
        to = edge.node
        match edge.how:
            case "negated":
                self._follow(edge.at, true=not true)
            case "compared" if isinstance(to, ast.Compare) and not at.way:
                same = _agrees(self._module, to, at.node)  # type: ignore[arg-type]
                if same is not None:
                    self._follow(to, true=true == same)
            case "test":
                self._tested(to, at.node, true=true)  # type: ignore[arg-type]
            case "called":
                self._follow(edge.at, true=true)
            case "passed":
                self._passed(to, at.node, true=true)  # type: ignore[arg-type]
            case "iterated" if isinstance(to, (ast.For, ast.AsyncFor)):
                self._root(to.body)
            case _ if edge.same:
                if isinstance(to, ast.BoolOp):
                    if isinstance(to.op, ast.And) == true:
                        self._root(behind(to.values, at.node))
                    else:
                        self.shared = True
                self._follow(edge.at, true=true)

    # -- where it is tested -----------------------------------------------------------------

    def _tested(self, to: ast.AST, test: ast.AST, *, true: bool) -> None:
        match to:
            case ast.IfExp():
                chosen, other = branches(to, true=true)
                self._root(chosen)
                self._chosen(to, *chosen, *other)
            case ast.If() | ast.While():
                chosen, other = branches(to, true=true)
                self._root(chosen)
                if other and ends(other):  # type: ignore[arg-type]
                    stop = stops(other)  # type: ignore[arg-type]
                    self._root(behind(self._module.block(to), to), stop=stop)
                    self.demanded |= stop
                self._flags(chosen, inside=True)
                self._flags(other, inside=False)
            case ast.Assert() if true and test is to.test:
                self.demanded = True
                self._root(behind(self._module.block(to), to), stop=True)
            case ast.comprehension() if true:
                above = self._module.parent(to)
                self._root(getattr(above, part) for part in ("elt", "key", "value") if hasattr(above, part))  # fmt: skip

    def _chosen(self, choice: ast.IfExp, chosen: ast.AST, other: ast.AST) -> None:
        """``True if check else False``, ``x if check else None``."""
        if isinstance(other, ast.Constant):
            if not other.value:
                self._follow(choice, true=True)
            elif isinstance(chosen, ast.Constant) and not chosen.value:
                self._follow(choice, true=False)

    def _flags(self, block: Iterable[ast.AST], *, inside: bool) -> None:
        """``if check: flag = True``, ``if not check: one, other = False, False``, and the same with ``return``."""
        for statement in block:
            value = getattr(statement, "value", None)
            stored = isinstance(statement, (ast.Assign, ast.AnnAssign))
            for part in value.elts if stored and isinstance(value, ast.Tuple) else [value]:
                if not isinstance(part, ast.Constant):
                    continue
                flag = part.value is None or isinstance(part.value, (bool, int))
                if (stored and flag) or (
                    isinstance(statement, ast.Return) and isinstance(part.value, bool)
                ):
                    self._follow(part, true=bool(part.value) == inside)

    def _matched(self, pattern: ast.pattern) -> None:
        above = self._module.parent(pattern)
        if isinstance(above, ast.MatchOr):
            self._follow(above, true=True)
        elif isinstance(above, ast.match_case):
            self._root(above.body)

    # -- calls ------------------------------------------------------------------------------

    def _passed(self, to: ast.Call | ast.keyword, node: ast.AST, *, true: bool) -> None:
        call = self._module.parent(to) if isinstance(to, ast.keyword) else to
        if not isinstance(call, ast.Call):
            return
        name = word(call.func).lower()
        if name in ("skipif", "skipunless"):
            condition = call.args[0] is node if to is call else to.arg == "condition"  # type: ignore[union-attr]
            if condition and true == (name == "skipunless"):
                self._skips(call)
        elif to is call and (name in _SAME or (name == "range" and true)):
            self._follow(call, true=true)
        elif true and (chosen := self._module.view(package_flags).get(node if to is call else to)):
            self._root([chosen])

    def _skips(self, start: ast.AST) -> None:
        """What a decorator or mark that skips without the check is put on."""
        todo, seen = [At(start)], {At(start)}
        for at in todo:  # grows
            for edge in self._values.uses(at):
                to = edge.node
                if edge.how == "decorates" and isinstance(to, (*_FUNCTIONS, ast.ClassDef)):
                    self._root(to.body)
                elif edge.how == "passed" and isinstance(to, ast.keyword) and to.arg == "marks":
                    self._root(getattr(self._module.parent(to), "args", ()))
                elif edge.how == "called" and isinstance(to, ast.Call):  # skipUnless(…)(test)
                    function = self._module.function(to)
                    names = self._module.index.names(function.name) if function else []
                    todo += [At(use) for use in names if isinstance(use.ctx, ast.Load)]
                elif edge.same and edge.at not in seen:
                    if edge.how == "assigned" and getattr(to, "name", "") == "pytestmark":
                        statement = self._module.statement(start)
                        self._root(behind(self._module.block(statement), statement))
                    seen.add(edge.at)
                    todo.append(edge.at)


def _agrees(module: Module, compare: ast.Compare, node: ast.AST) -> bool | None:
    """Is ``count > 0`` true where ``count`` is? False for ``count == 0``, None for a comparison that says neither."""
    if len(compare.ops) != 1:
        return None
    left = compare.left is node
    value = module.constant(compare.comparators[0] if left else compare.left)
    if not isinstance(value, (bool, int)) and value is not None:
        return None
    match compare.ops[0]:
        case ast.Eq() | ast.Is():
            return bool(value)
        case ast.NotEq() | ast.IsNot():
            return not value
        case ast.Lt() | ast.LtE():
            return not left
        case ast.Gt() | ast.GtE():
            return left
    return None
