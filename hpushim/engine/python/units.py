"""The piece of text that libcst parses for a change: simple statements that share a line, or a header.

Each is parsed at its own indentation, inside ``if 1:`` where it has one, so nothing is dedented and put back: comments, continuation lines
and strings over several lines come out as they went in. A header is parsed with ``pass`` for its body.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpushim.engine.python.slots import Unplaced
from hpushim.model import Span

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: libcst takes any, but gives back bare carriage returns as something else.
_NEWLINE = "\n"
#: Between two statements of one line, which a backslash may continue.
_SEMICOLON = re.compile(r"(?:[ \t\f]|\\(?:\r\n|\r|\n))*;(?:[ \t\f]|\\(?:\r\n|\r|\n))*")
_COMPOUND = (ast.ExceptHandler, ast.match_case)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One or several simple statements of a line, or one node with a body; ``span`` is what is parsed."""

    nodes: tuple[ast.AST, ...]
    span: Span
    #: What is before and behind the text when it is parsed.
    lead: str
    tail: str

    @property
    def compound(self) -> bool:
        return self.tail != _NEWLINE


def is_compound(statement: ast.AST) -> bool:
    """Has the statement, handler or case statements, or cases, of its own?"""
    return isinstance(getattr(statement, "body", getattr(statement, "cases", None)), list)


def owner(module: Module, node: ast.AST) -> ast.AST:
    """The statement, handler or case in whose own text, its body apart, ``node`` is."""
    while not isinstance(node, (ast.stmt, *_COMPOUND)):
        above = module.parent(node)
        if above is None:
            raise Unplaced("it is in no statement")
        node = above
    return node


def unit(module: Module, statement: ast.AST) -> Unit:
    """The unit of a statement, handler or case."""
    if is_compound(statement):
        return _header(module, statement)
    assert isinstance(statement, ast.stmt)
    run = line_group(module, statement)
    start, end = module.span(run[0]).start, module.span(run[-1]).end
    rest = module.source(Span(end, module.line_span(run[-1].end_lineno or 1).end))
    if rest.lstrip(" \t\f").startswith(";"):
        end += rest.index(";") + 1
    return Unit(tuple(run), Span(start, end), _frame(module, start), _NEWLINE)


def line_group(module: Module, statement: ast.stmt) -> list[ast.stmt]:
    """The simple statements on one line with ``statement``, in order."""
    block, first = module.place(statement)
    last = first
    while first and _same_line(module, block[first - 1], block[first]):
        first -= 1
    while last + 1 < len(block) and _same_line(module, block[last], block[last + 1]):
        last += 1
    return block[first : last + 1]


def is_alone(module: Module, statement: ast.stmt) -> bool:
    """Does nothing share the lines of a simple statement?"""
    return len(line_group(module, statement)) == 1 and module.begins_line(statement)


def _same_line(module: Module, one: ast.stmt, other: ast.stmt) -> bool:
    between = Span(module.span(one).end, module.start(other))
    return (
        one.end_lineno == other.lineno or _SEMICOLON.fullmatch(module.source(between)) is not None
    )


def _header(module: Module, node: Any) -> Unit:
    start = module.start(node)
    lead = _frame(module, start)
    if isinstance(node, ast.Match):
        return Unit(
            (node,), Span(start, module.start(node.cases[0])), lead, f"case _: pass{_NEWLINE}"
        )
    body = module.start(node.body[0])
    if isinstance(node, ast.ExceptHandler):
        lead = f"{lead}try: pass{_NEWLINE}{lead.rpartition(_NEWLINE)[2]}"
    elif isinstance(node, ast.match_case):
        lead = f"match 1:{_NEWLINE}{_indent(module, start)}"
    elif isinstance(node, ast.If) and module.data[start : start + 4] == b"elif":
        start += 2
    return Unit((node,), Span(start, body), lead, f"pass{_NEWLINE}")


def _frame(module: Module, start: int) -> str:
    """What has to be before a piece of text that starts at a column other than the first."""
    if start == module.line_span(module.position(start)[0]).start:
        return ""
    return f"if 1:{_NEWLINE}{_indent(module, start)}"


def _indent(module: Module, start: int) -> str:
    line = module.line_span(module.position(start)[0]).start
    indent = module.source(Span(line, start))
    return indent if indent and not indent.strip(" \t") else "    "
