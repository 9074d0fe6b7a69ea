"""A parsed file as rules see it: where things stand, what names mean, what encloses what.

Built once per file and shared by all rules. Knows Python, not CUDA.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hpushim.engine import scope as scopes
from hpushim.engine.text import ALONE, LINE_END, Project, Text
from hpushim.model import Edit, Span, Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

__all__ = ["ALONE", "Module", "Project"]

_STRING_STARTS = {tokenize.STRING, getattr(tokenize, "FSTRING_START", -1)}
_STRING_ENDS = {tokenize.STRING, getattr(tokenize, "FSTRING_END", -1)}
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
        self._lines = self.line_starts

    # -- where ------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[ast.AST]:
        """Every node, parents first, in source order."""
        return self._table.order

    def offset(self, line: int, column: int) -> int:
        """The byte offset of :mod:`ast`'s 1-based line and 0-based UTF-8 column."""
        return self._lines[line - 1] + column

    def span(self, node: ast.AST) -> Span:
        """Where ``node`` stands (decorators excluded; parentheses around it excluded)."""
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
        # Parentheses let the literals stand on several lines without a newline token between them.
        text = "(" + self.source(span) + "\n)"
        inner = self.data[span.start : span.end]
        starts = [0, *(m.end() for m in LINE_END.finditer(inner))]

        def at(position: tuple[int, int]) -> int:
            row, column = position
            line_start = starts[row - 1]
            line = inner[line_start : starts[row] if row < len(starts) else None].decode()
            return line_start + len(line[: column - (1 if row == 1 else 0)].encode())

        found: list[Span] = []
        depth, begin = 0, 0
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _STRING_STARTS:
                if depth == 0:
                    begin = at(token.start)
                depth += 1
            if token.type in _STRING_ENDS:
                depth -= 1
                if depth == 0:
                    found.append(Span(span.start + begin, span.start + at(token.end)))
        return found

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

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._table.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the parent outwards to the module."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

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
        known = self._table.names.get(node)  # type: ignore[call-overload]
        if known is not None:
            return known  # type: ignore[no-any-return]
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

    def qualified(self, node: ast.AST | None) -> str | None:
        """The dotted name that an expression certainly means, or None.

        Follows import aliases and single assignments (``t = torch``; ``ok = torch.cuda.is_available``).
        A builtin is given as ``builtins.NAME``; names bound in several ways give None
        unless all ways agree.
        """
        names = self.possible_names(node)
        return next(iter(names)) if len(names) == 1 else None

    def possible_names(self, node: ast.AST | None, depth: int = _DEPTH) -> frozenset[str]:
        """Every dotted name that an expression may mean (``try: import … except: import …`` gives two)."""
        if depth == 0:
            return frozenset()
        if isinstance(node, ast.Attribute):
            return frozenset(
                f"{base}.{node.attr}" for base in self.possible_names(node.value, depth)
            )
        if not isinstance(node, ast.Name):
            return frozenset()
        found = self.bindings(node)
        if not found:
            return frozenset((f"builtins.{node.id}",))
        names: set[str] = set()
        for binding in found:
            if binding.qualified is not None:
                names.add(binding.qualified)
            elif (
                binding.kind == "assign"
                and isinstance(binding.value, (ast.Name, ast.Attribute))
                and not self._mentions(binding.value, node.id)
            ):
                names |= self.possible_names(binding.value, depth - 1)
            elif binding.kind == "assign" and _is_none(binding.value):
                continue  # the usual `except ImportError: name = None`
            else:
                return frozenset()
        return frozenset(names)

    def _mentions(self, node: ast.AST, name: str) -> bool:
        return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))

    def values(self, node: ast.expr | None, depth: int = _DEPTH) -> list[ast.expr]:
        """The expressions that ``node`` may evaluate to, through assignments, ``a if c else b`` and ``a or b``.

        A name whose value is not an expression in this file (a bare parameter, a loop variable) is returned itself.
        """
        if node is None:
            return []
        if depth == 0:
            return [node]
        if isinstance(node, ast.IfExp):
            return [*self.values(node.body, depth - 1), *self.values(node.orelse, depth - 1)]
        if isinstance(node, ast.BoolOp):
            return [v for part in node.values for v in self.values(part, depth - 1)]
        if isinstance(node, ast.NamedExpr):
            return self.values(node.value, depth - 1)
        if isinstance(node, ast.Name):
            found: list[ast.expr] = []
            for binding in self.bindings(node):
                if binding.kind in ("assign", "param") and binding.value is not None:
                    if not self._mentions(binding.value, node.id):
                        found += self.values(binding.value, depth - 1)
                else:
                    found.append(node)
            return found or [node]
        return [node]


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
