"""A parsed file as rules see it: where things stand, what names mean, what encloses what."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hpushim.engine.base.text import ALONE, Project, Text
from hpushim.engine.python import scope as scopes
from hpushim.engine.python.index import Index
from hpushim.engine.python.literals import literals
from hpushim.engine.python.names import Names
from hpushim.engine.python.walk import mentions
from hpushim.model import Span, Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

T = TypeVar("T")

_DEPTH = 12  # how many assignments a name is followed through


class Module(Text):
    """One Python source text with its tree. Built once per file and shared by all rules.

    Raises SyntaxError (or ValueError for NUL bytes) when ``text`` is not Python.
    """

    def __init__(
        self,
        text: str,
        path: str,
        target: Target,
        matrix: Matrix,
        project: Project = ALONE,
        ambient: tuple[str, ...] = (),
    ) -> None:
        super().__init__(text, path, target, matrix, project)
        self.tree = ast.parse(text)
        self.index = Index(self.tree, self.data, self.line_starts)
        self.names = Names(self.index, ambient)
        #: The dotted name that an expression certainly means, or None; every one that it may mean.
        self.qualified = self.names.qualified
        self.possible_names = self.names.possible
        #: The node that holds a node; None for the module.
        self.parent: Callable[[ast.AST], ast.AST | None] = self.index.parent
        #: The scope in which a node is evaluated.
        self.scope = self.index.scope
        self._views: dict[Any, Any] = {}
        self._places: dict[ast.stmt, tuple[list[ast.stmt], int]] = {}

    def view(self, kind: Callable[[Module], T]) -> T:
        """``kind(module)``, made when it is first asked for and kept: what several rules ask of a file."""
        try:
            return cast("T", self._views[kind])
        except KeyError:
            made = self._views[kind] = kind(self)
            return made

    def forget(self) -> None:
        """Lets go of the views, which point back here: a circle."""
        self._views.clear()

    # -- where ------------------------------------------------------------------------------

    def offset(self, line: int, column: int) -> int:
        """The byte offset of :mod:`ast`'s 1-based line and 0-based UTF-8 column."""
        return self.line_starts[line - 1] + column

    def span(self, node: ast.AST) -> Span:
        """Where ``node`` stands (decorators excluded; parentheses around it excluded).

        Raises ValueError for a part of an f-string whose place is not known.
        """
        if self.index.lost and node in self.index.lost:
            raise ValueError(
                f"line {getattr(node, 'lineno', 0)}: a place inside an f-string is unknown"
            )
        n: Any = node
        lines = self.line_starts
        return Span(lines[n.lineno - 1] + n.col_offset, lines[n.end_lineno - 1] + n.end_col_offset)

    def start(self, node: ast.AST) -> int:
        """Where a statement, handler or case starts, its decorators included."""
        decorators = getattr(node, "decorator_list", ())
        if decorators:
            return self.data.rfind(b"@", 0, self.span(decorators[0]).start)
        if isinstance(node, ast.match_case):
            return self.data.rfind(b"case", 0, self.span(node.pattern).start)
        return self.span(node).start

    def source(self, where: ast.AST | Span) -> str:
        """The text at a node or span, as written."""
        return self.text_at(where if isinstance(where, Span) else self.span(where))

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
        above = self.index.parent
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
        return self.place(statement)[0]

    def place(self, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
        """The list of statements that ``statement`` is a member of, and its position there."""
        if statement not in self._places:
            parent: Any = self.parent(statement)
            for name in ("body", "orelse", "finalbody"):
                block = getattr(parent, name, None)
                if isinstance(block, list):
                    self._places.update((item, (block, at)) for at, item in enumerate(block))
        return self._places.get(statement) or ([statement], 0)

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost ``def`` around ``node``."""
        for above in self.ancestors(node):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return above
        return None

    # -- names ------------------------------------------------------------------------------

    @property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        return self.index.imports

    @property
    def global_scope(self) -> scopes.Scope:
        return self.index.root

    def scope_of(self, node: ast.AST) -> scopes.Scope | None:
        """The scope that a function, class, comprehension or module node opens."""
        return self.index.scopes.get(node)

    def bindings(self, name: ast.Name) -> list[scopes.Binding]:
        """Every binding that ``name`` may refer to; empty for builtins."""
        return self.scope(name).lookup(name.id)

    def bindings_of(self, name: str) -> list[scopes.Binding]:
        """Every binding of ``name`` in any scope of the file; for "is this name taken?"."""
        self.index.names(name)  # lambdas and comprehensions that bind it
        return [
            binding
            for scope in self.index.scopes.values()
            for binding in scope.bindings.get(name, ())
        ]

    @property
    def import_bindings(self) -> list[scopes.Binding]:
        """What the imports of the file bind, in any scope."""
        return self.index.import_bindings

    def uses(self, binding: scopes.Binding) -> list[ast.Name]:
        """Every place that reads the name which a binding gives its value."""
        return [
            node
            for node in self.index.names(binding.name)
            if isinstance(node.ctx, ast.Load) and any(b is binding for b in self.bindings(node))
        ]

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
                if not mentions(binding.value, node.id):
                    found += self._values(binding.value, depth - 1, seen)
            else:
                found.append(node)
        return found or [node]
