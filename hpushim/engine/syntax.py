"""A parsed file as rules see it: where things stand, what names mean, what encloses what.

Built once per file and shared by all rules. Knows Python, not CUDA.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hpushim.engine import scope as scopes
from hpushim.engine.literals import literals, place
from hpushim.engine.text import ALONE, Project, Text
from hpushim.model import Edit, Span, Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

__all__ = ["ALONE", "Module", "Project"]

N = TypeVar("N", bound=ast.AST)

_DEPTH = 12  # how many assignments a name is followed through


class Module(Text):
    """One Python source text with its tree.

    Raises SyntaxError (or ValueError for NUL bytes) when ``text`` is not Python.
    """

    def __init__(
        self,
        text: str,
        path: str,
        target: Target,
        matrix: Matrix,
        project: Project = ALONE,
    ) -> None:
        super().__init__(text, path, target, matrix, project)
        #: What rules of one file share with each other, by a key of their choosing.
        self.notes: dict[str, Any] = {}
        self.tree = ast.parse(text)
        self._table = scopes.build(self.tree)
        #: The node that holds a node; None for the module.
        self.parent: Callable[[ast.AST], ast.AST | None] = self._table.parents.get
        self._qualified: dict[ast.AST, str | None] = {}
        self._meanings: dict[ast.AST, frozenset[str]] = {}
        self._means: dict[tuple[scopes.Scope, str], frozenset[str]] = {}
        self._open: set[int] = set()
        self._lines = self.line_starts
        #: Nodes inside an f-string whose place is not known (before Python 3.12, and then rarely).
        self._lost: set[ast.AST] = set()
        if sys.version_info < (3, 12) and self._table.formatted:
            self._lost = place(self.data, self._lines, self._table.formatted)

    # -- where ------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[ast.AST]:
        """Every node, parents first, in source order."""
        return self._table.order

    def offset(self, line: int, column: int) -> int:
        """The byte offset of :mod:`ast`'s 1-based line and 0-based UTF-8 column."""
        return self._lines[line - 1] + column

    def span(self, node: ast.AST) -> Span:
        """Where ``node`` stands (decorators excluded; parentheses around it excluded).

        Raises ValueError for a part of an f-string whose place is not known.
        """
        if self._lost and node in self._lost:
            raise ValueError(
                f"line {getattr(node, 'lineno', 0)}: a place inside an f-string is unknown"
            )
        n: Any = node
        return Span(
            self.offset(n.lineno, n.col_offset), self.offset(n.end_lineno, n.end_col_offset)
        )

    def source(self, where: ast.AST | Span) -> str:
        """The text at a node or span, as written."""
        return self.text_at(where if isinstance(where, Span) else self.span(where))

    def replace(self, where: ast.AST | Span, new: str) -> Edit:
        """The edit that puts ``new`` in place of a node or span."""
        span = where if isinstance(where, Span) else self.span(where)
        return Edit(span, self.source(span), new)

    def indent(self, node: ast.AST) -> str:
        """The white space that the line of ``node`` begins with."""
        line = self.source(self.line_span(node.lineno))  # type: ignore[attr-defined]
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    # -- strings ----------------------------------------------------------------------------

    def string_tokens(self, node: ast.AST) -> list[Span]:
        """The literals that make up a string constant or f-string, prefix and quotes included.

        Implicit concatenation gives several; an f-string is one, with what it interpolates.
        """
        span = self.span(node)
        return literals(self.data, span.start, span.end)

    def constant(self, node: ast.expr | None) -> object:
        """The value of a literal, of ``"a" + "b"``, of a negated number; None when not constant."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.constant(node.left), self.constant(node.right)
            if isinstance(left, str) and isinstance(right, str):
                return left + right
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.constant(node.operand)
            if isinstance(value, (int, float)):
                return -value
        return None

    # -- structure --------------------------------------------------------------------------

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the parent outwards to the module."""
        above = self._table.parents.get
        parent = above(node)
        while parent is not None:
            yield parent
            parent = above(parent)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds ``node`` (itself, when it is one)."""
        while not isinstance(node, ast.stmt):
            above = self.parent(node)
            assert above is not None, "every expression stands in a statement"
            node = above
        return node

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that ``statement`` is a member of."""
        parent = self.parent(statement)
        for _, value in ast.iter_fields(parent) if parent is not None else ():
            if isinstance(value, list) and any(item is statement for item in value):
                return value
        return [statement]

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost ``def`` around ``node``."""
        for above in self.ancestors(node):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return above
        return None

    # -- names ------------------------------------------------------------------------------

    @property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        return self._table.imports

    @property
    def global_scope(self) -> scopes.Scope:
        return self._table.root

    def scope(self, node: ast.AST) -> scopes.Scope:
        """The scope in which ``node`` is evaluated."""
        known: scopes.Scope | None = self._table.names.get(node)  # type: ignore[call-overload]
        if known is not None:
            return known
        child = node
        for above in self.ancestors(node):
            inner = self._table.scopes.get(above)
            if inner is not None and self._evaluated_in(above, child):
                return inner
            child = above
        return self._table.root

    def scope_of(self, node: ast.AST) -> scopes.Scope | None:
        """The scope that a function, class, comprehension or module node opens."""
        return self._table.scopes.get(node)

    def _evaluated_in(self, owner: ast.AST, child: ast.AST) -> bool:
        if isinstance(owner, ast.Module):
            return True
        for name, value in ast.iter_fields(owner):
            if value is child or (isinstance(value, list) and any(v is child for v in value)):
                return scopes.evaluated_inside(owner, name)
        return True

    def bindings(self, name: ast.Name) -> list[scopes.Binding]:
        """Every binding that ``name`` may refer to; empty for builtins."""
        return self.scope(name).lookup(name.id)

    def bindings_of(self, name: str) -> list[scopes.Binding]:
        """Every binding of ``name`` in any scope of the file; for "is this name taken?"."""
        return self._by_name.get(name, [])

    @cached_property
    def _by_name(self) -> dict[str, list[scopes.Binding]]:
        found: dict[str, list[scopes.Binding]] = {}
        for scope in self._table.scopes.values():
            for name, bindings in scope.bindings.items():
                found.setdefault(name, []).extend(bindings)
        return found

    @cached_property
    def namesakes(self) -> frozenset[str]:
        """The bare names that may mean a dotted one, as far as the file says: all others mean none, or a builtin."""
        return frozenset(
            name
            for name, bindings in self._by_name.items()
            for binding in bindings
            if binding.qualified is not None
            or (binding.kind == "assign" and isinstance(binding.value, (ast.Name, ast.Attribute)))
        )

    def of_type(self, kind: type[N]) -> list[N]:
        """Every node of exactly this class, in source order."""
        return cast("list[N]", self._by_type.get(kind, []))

    @cached_property
    def _by_type(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in self._table.order:
            found[node.__class__].append(node)
        return found

    def qualified(self, node: ast.AST | None) -> str | None:
        """The dotted name that an expression certainly means, or None.

        Follows import aliases and single assignments (``t = torch``; ``ok = torch.cuda.is_available``).
        A builtin is given as ``builtins.NAME``; names bound in several ways give None
        unless all ways agree.
        """
        if isinstance(node, ast.Attribute):
            known = self._qualified.get(node, _UNASKED)
            if known is _UNASKED:
                base = self.qualified(node.value)
                known = self._qualified[node] = None if base is None else f"{base}.{node.attr}"
            return known
        if isinstance(node, ast.Name):
            names = self._name_means(node)
            return next(iter(names)) if len(names) == 1 else None
        return None

    def possible_names(self, node: ast.AST | None) -> frozenset[str]:
        """Every dotted name that an expression may mean (``try: import … except: import …`` gives two).

        Empty when one of the ways is not a dotted name.
        """
        if isinstance(node, ast.Attribute):
            known = self._meanings.get(node)
            if known is None:
                known = frozenset(f"{base}.{node.attr}" for base in self.possible_names(node.value))
                if not self._open:
                    self._meanings[node] = known
            return known
        if isinstance(node, ast.Name):
            return self._name_means(node)
        return _NOTHING

    def _name_means(self, node: ast.Name) -> frozenset[str]:
        asked = (self.scope(node), node.id)
        known = self._means.get(asked)
        if known is not None:
            return known
        bindings = asked[0].lookup(node.id)
        if not bindings:
            found = self._means[asked] = frozenset((f"builtins.{node.id}",))
            return found
        key = id(bindings)  # the list lives as long as the table
        if key in self._open:
            return _CYCLE
        self._open.add(key)
        try:
            found = self._bindings_mean(bindings)
        finally:
            self._open.discard(key)
        if not self._open:
            # Only now: in the midst of another name's search a circle may cut this one short.
            found = frozenset(name for name in found if not name.startswith(_ROUND))
            self._means[asked] = found
        return found

    def _bindings_mean(self, bindings: list[scopes.Binding]) -> frozenset[str]:
        names: set[str] = set()
        for binding in bindings:
            if binding.qualified is not None:
                names.add(binding.qualified)
            elif binding.kind == "assign" and _is_none(binding.value):
                continue  # the usual `except ImportError: name = None`
            elif binding.kind == "assign" and isinstance(binding.value, (ast.Name, ast.Attribute)):
                through = self.possible_names(binding.value)
                if not through:
                    return _NOTHING
                names |= through
            else:
                return _NOTHING
        return frozenset(names)

    def _mentions(self, node: ast.AST, name: str) -> bool:
        return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))

    def values(self, node: ast.expr | None, depth: int = _DEPTH) -> list[ast.expr]:
        """The expressions that ``node`` may evaluate to, through assignments, ``a if c else b`` and ``a or b``.

        A name whose value is not an expression in this file (a bare parameter, a loop variable) is returned itself.
        """
        return [] if node is None else list(dict.fromkeys(self._values(node, depth, frozenset())))

    def _values(self, node: ast.expr, depth: int, seen: frozenset[int]) -> list[ast.expr]:
        if depth == 0:
            return [node]
        if isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.BoolOp):
            parts = node.values
        elif isinstance(node, ast.NamedExpr):
            parts = [node.value]
        elif isinstance(node, ast.Name):
            return self._name_values(node, depth, seen)
        else:
            return [node]
        return [value for part in parts for value in self._values(part, depth - 1, seen)]

    def _name_values(self, node: ast.Name, depth: int, seen: frozenset[int]) -> list[ast.expr]:
        bindings = self.bindings(node)
        if id(bindings) in seen:
            return []
        seen |= {id(bindings)}
        found: list[ast.expr] = []
        for binding in bindings:
            if binding.kind in ("assign", "param") and binding.value is not None:
                if not self._mentions(binding.value, node.id):
                    found += self._values(binding.value, depth - 1, seen)
            else:
                found.append(node)
        return found or [node]


_UNASKED = "\0"
_NOTHING: frozenset[str] = frozenset()
_ROUND = "\0"
#: What a name means that is being looked up already: it adds nothing, and stops nothing.
_CYCLE = frozenset((_ROUND,))


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
