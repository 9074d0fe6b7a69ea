"""A parsed file as rules see it: where things are, what names mean, what encloses what."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from hpushim.engine.base.text import ALONE, Project, Text
from hpushim.model import Span, Target
from hpushim.pycode.literals import literals
from hpushim.pycode.places import TRIES
from hpushim.pycode.scope import Binding
from hpushim.pycode.source import Source
from hpushim.pycode.walk import mentions, walk

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")

_DEPTH = 12  # how many assignments a name is followed through

#: What binds as tightly as a name.
ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.JoinedStr, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp)  # fmt: skip


class Module(Text, Source):
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
        self._read(ast.parse(text), self.data, self.line_starts, ambient)
        # A method would hold the module, which then waits for the collector.
        self.names.is_own = partial(_is_own, self.project.files)
        #: What names are given, by their lists of bindings, with how many those were.
        self._bound: dict[int, tuple[int, tuple[ast.expr | None, ...]]] = {}

    # -- where ------------------------------------------------------------------------------

    def offset(self, line: int, column: int) -> int:
        """The byte offset of :mod:`ast`'s 1-based line and 0-based UTF-8 column."""
        return self.line_starts[line - 1] + column

    def span(self, node: ast.AST) -> Span:
        """Where ``node`` is (decorators excluded; parentheses around it excluded).

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

    def operand(self, node: ast.expr) -> str:
        """The text of an expression, in parentheses where a dot, a bracket or an operator behind it needs them."""
        text = self.source(node)
        number = isinstance(node, ast.Constant) and not isinstance(node.value, (str, bytes))
        return text if isinstance(node, ATOMS) and not number else f"({text})"

    def surroundings(self, offset: int) -> tuple[str, bool]:
        """The innermost function or class at a place, ``Model.forward``, "" at the top level; and whether it runs under a condition.

        That is an ``if``, other than that of a program, or a ``try``.
        """
        line, _ = self.position(offset)
        names: list[str] = []
        conditional = False
        for node in self.index.around(offset):
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    names.append(node.name)
                elif isinstance(node, ast.If):
                    conditional |= line > node.lineno and "__name__" not in self.source(node.test)
                conditional |= isinstance(node, TRIES)
        return ".".join(names[::-1]), conditional

    def indent(self, node: ast.AST) -> str:
        """The white space before a statement; of one that shares its line, before the statement that begins there."""
        above: Any = self.statement(node) if isinstance(node, ast.expr) else node
        while isinstance(above, ast.stmt) and not self.begins_line(above):
            block, place = self.place(above)
            above = block[place - 1] if place else self.parent(above)
        first = above.pattern if isinstance(above, ast.match_case) else above
        line = self.source(self.line_span(getattr(first, "lineno", 1)))
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    def begins_line(self, statement: ast.stmt) -> bool:
        """Is a statement the first of its line?"""
        start = self.start(statement)
        number = self.position(start)[0]
        above = self.source(self.line_span(number - 1)).rstrip("\r\n") if number > 1 else ""
        continued = above.endswith("\\") and "#" not in above
        return not continued and not self.source(Span(self.line_span(number).start, start)).strip()

    def deeper(self, node: ast.AST) -> str:
        """How much further a block under the statement of ``node`` is indented, in white space: as in the rest of the file."""
        step: str = self.view(_step)
        return step or ("\t" if self.indent(node).endswith("\t") else "    ")

    # -- strings ----------------------------------------------------------------------------

    def string_tokens(self, node: ast.AST) -> list[Span]:
        """The literals that make up a string constant or f-string, prefix and quotes included.

        Implicit concatenation gives several; an f-string is one, with what it interpolates.
        """
        span = self.span(node)
        return [Span(*piece) for piece in literals(self.data, span.start, span.end)]

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
        for value in self._given(bindings):
            self.steps.spend()
            found += [node] if value is None else self._values(value, depth - 1, seen)
        return found or [node]

    def _given(self, bindings: list[Binding]) -> tuple[ast.expr | None, ...]:
        """What a name is given, each once, without what is made of its own value; None where that is no expression of this file."""
        known = self._bound.get(id(bindings))
        if known is None or known[0] != len(bindings):
            values = dict.fromkeys(
                binding.value if binding.kind in ("assign", "param") else None
                for binding in bindings
                if binding.kind not in ("assign", "param")
                or binding.value is None
                or not mentions(binding.value, binding.name)
            )
            known = self._bound[id(bindings)] = len(bindings), tuple(values)
        return known[1]


def once(function: Callable[[Module, N], T]) -> Callable[[Module, N], T]:
    """A question about a node of a module that is worked out once and kept with the module."""

    def answers(_: Module) -> dict[N, T]:
        return {}

    @wraps(function)
    def ask(module: Module, node: N) -> T:
        known = module.view(answers)
        if node not in known:
            known[node] = function(module, node)
        return known[node]

    return ask


def _is_own(files: frozenset[str], name: str) -> bool:
    """Has the project a file that a relative import may name so?"""
    place = name.lstrip(".").replace(".", "/")
    ends = (f"{place}.py", f"{place}/__init__.py")
    return any(path.endswith(ends) for path in files)


def _step(module: Module) -> str:
    """What the first block of the file is indented by; nothing in a file without one."""
    for node in walk(module.tree):
        block = getattr(node, "body", None)
        if isinstance(node, ast.stmt) and block and block[0].lineno != node.lineno:
            outer, inner = module.indent(node), module.indent(block[0])
            return inner.removeprefix(outer) if inner.startswith(outer) else ""
    return ""
