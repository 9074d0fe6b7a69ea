"""String literals in Python source: where each one is, and what is inside an f-string.

Before Python 3.12 the parser gives wrong places inside some f-strings and none to their parts;
:func:`place` gives them the places that 3.12 would, so that rules need not care.
"""

from __future__ import annotations

import ast
import bisect
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hpushim.pycode.walk import walk

_LITERAL = re.compile(rb"(?P<prefix>[A-Za-z]{0,2})(?P<mark>\"\"\"|'''|\"|')", re.DOTALL)
_BODY = {
    mark: re.compile(rb"(?:[^\\]|\\.)*?" + mark, re.DOTALL) for mark in (b'"""', b"'''", b'"', b"'")
}
#: What may are between literals that are joined: blanks, line ends, comments, parentheses.
_BETWEEN = re.compile(rb"(?:[ \t\f\r\n()]|\\(?:\r\n|\r|\n)|#[^\r\n]*)+")
_STARTS = {tokenize.STRING} | {
    getattr(tokenize, name)
    for name in ("FSTRING_START", "TSTRING_START")
    if hasattr(tokenize, name)
}
_ENDS = {tokenize.STRING} | {
    getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name)
}
#: From 3.12 on an f-string may hold the quotes that it is written in.
_NESTED_QUOTES = hasattr(tokenize, "FSTRING_START")
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Span(NamedTuple):
    """A half-open range of bytes."""

    start: int
    end: int


def literals(data: bytes, start: int, end: int) -> list[Span]:
    """The literals of a string expression, prefix and quotes included; one for each joined piece."""
    found: list[Span] = []
    at = start
    while at < end:
        between = _BETWEEN.match(data, at, end)
        if between:
            at = between.end()
            continue
        head = _LITERAL.match(data, at, end)
        if head is None:
            return []
        if _NESTED_QUOTES and head["prefix"] and set(head["prefix"]) & set(b"fFtT"):
            return _tokenized(data, start, end)
        body = _BODY[head["mark"]].match(data, head.end(), end)
        if body is None:
            return []
        found.append(Span(at, body.end()))
        at = body.end()
    return found


def _tokenized(data: bytes, start: int, end: int) -> list[Span]:
    inner = data[start:end]
    # Parentheses let the literals be on several lines without a newline token between them.
    text = "(" + _LINE_END.sub(b"\n", inner).decode() + "\n)"
    starts = [0, *(m.end() for m in _LINE_END.finditer(inner))]

    def at(position: tuple[int, int]) -> int:
        row, column = position
        first = starts[row - 1]
        line = inner[first : starts[row] if row < len(starts) else None].decode()
        return first + len(line[: column - (1 if row == 1 else 0)].encode())

    found: list[Span] = []
    depth, begin = 0, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _STARTS:
            if depth == 0:
                begin = at(token.start)
            depth += 1
        if token.type in _ENDS:
            depth -= 1
            if depth == 0:
                found.append(Span(start + begin, start + at(token.end)))
    return found


# -- inside f-strings, before 3.12 ----------------------------------------------------------


@dataclass(slots=True)
class _Field:
    """``{expression!r:spec}``."""

    start: int
    expression: Span
    debug: Span | None = None  # the text of `{x=}`, which is a constant of its own
    spec: Span | None = None
    inner: tuple[_Field, ...] = ()
    end: int = 0


class _Lost(Exception):
    """The literal is not understood."""


def place(data: bytes, lines: Sequence[int], strings: Sequence[ast.JoinedStr]) -> set[ast.AST]:
    """Puts the parts of every f-string where they are; returns the nodes whose place stays unknown."""
    lost: set[ast.AST] = set()
    seen: set[ast.AST] = set()
    placer = _Placer(data, lines)
    for node in strings:
        if node not in seen:
            seen.update(part for part in walk(node) if isinstance(part, ast.JoinedStr))
            try:
                placer.string(node)
            except (_Lost, IndexError, SyntaxError, ValueError):
                lost.update(p for p in walk(node) if p is not node and hasattr(p, "lineno"))
    return lost


class _Placer:
    def __init__(self, data: bytes, lines: Sequence[int]) -> None:
        self.data = data
        self.lines = lines

    def span(self, node: Any) -> Span:
        return Span(
            self.lines[node.lineno - 1] + node.col_offset,
            self.lines[node.end_lineno - 1] + node.end_col_offset,
        )

    def put(self, node: Any, start: int, end: int) -> None:
        first = bisect.bisect_right(self.lines, start)
        last = bisect.bisect_right(self.lines, end)
        node.lineno, node.col_offset = first, start - self.lines[first - 1]
        node.end_lineno, node.end_col_offset = last, end - self.lines[last - 1]

    def string(self, node: ast.JoinedStr) -> None:
        span = self.span(node)
        pieces: list[_Field | Span] = []
        for literal in literals(self.data, span.start, span.end):
            head = _LITERAL.match(self.data, literal.start)
            assert head is not None
            prefix, mark = head["prefix"].lower(), head["mark"]
            if b"f" in prefix:
                end = literal.end - len(mark)
                pieces += self.pieces(head.end(), end, raw=b"r" in prefix, stop=b"")[0]
            else:
                pieces.append(literal)
        self.values(node.values, pieces)

    def values(self, values: list[ast.expr], pieces: list[_Field | Span]) -> None:
        """Pairs the parts of the tree with the pieces of the text; neighbouring texts are one constant."""
        texts: list[Span] = []
        rest = iter(values)
        for piece in pieces:
            if isinstance(piece, Span):
                texts.append(piece)
                continue
            if piece.debug is not None:
                texts.append(piece.debug)
            value = next(rest, None)
            if isinstance(value, ast.Constant):
                self.text(value, texts)
                value = next(rest, None)
            texts = []
            if not isinstance(value, ast.FormattedValue):
                raise _Lost
            self.field(value, piece)
        last = next(rest, None)
        if isinstance(last, ast.Constant):
            self.text(last, texts)
            last = next(rest, None)
        if last is not None:
            raise _Lost

    def text(self, node: ast.Constant, texts: list[Span]) -> None:
        if not texts:
            raise _Lost
        self.put(node, texts[0].start, texts[-1].end)

    def field(self, node: ast.FormattedValue, piece: _Field) -> None:
        self.put(node, piece.start, piece.end)
        if not self._fits(node.value, piece.expression):
            self._again(node.value, piece.expression)
        inside: list[ast.AST] = [node.value]
        while inside:
            part = inside.pop()
            if isinstance(part, ast.JoinedStr):
                self.string(part)  # and what it holds
            else:
                inside += ast.iter_child_nodes(part)
        if isinstance(node.format_spec, ast.JoinedStr):
            if piece.spec is None:
                raise _Lost
            self.put(node.format_spec, piece.spec.start, piece.spec.end)
            at = piece.spec.start + 1
            inner: list[_Field | Span] = []
            for nested in piece.inner:
                inner += [Span(at, nested.start)] if nested.start > at else []
                inner.append(nested)
                at = nested.end
            inner += [Span(at, piece.spec.end)] if piece.spec.end > at else []
            self.values(node.format_spec.values, inner)

    def _fits(self, node: ast.expr, where: Span) -> bool:
        """Do the places that the parser gave agree with the text?"""
        for part in walk(node):
            if not isinstance(part, (ast.expr, ast.keyword, ast.arg)):
                continue
            if isinstance(part, ast.JoinedStr):
                return False
            try:
                span = self.span(part)
            except IndexError:
                return False
            if not where.start <= span.start < span.end <= where.end:
                return False
            if isinstance(part, ast.Name) and self.data[span.start : span.end] != part.id.encode():
                return False
            if isinstance(part, ast.Attribute) and not self.data.endswith(
                part.attr.encode(), 0, span.end
            ):
                return False
        return True

    def _again(self, node: ast.expr, where: Span) -> None:
        """Parses the expression by itself and takes the places from there."""
        text = self.data[where.start : where.end]
        parsed = ast.parse(b"(" + text + b"\n)", mode="eval").body
        if ast.dump(parsed) != ast.dump(node):
            raise _Lost
        starts = [0, *(m.end() for m in _LINE_END.finditer(text))]

        def offset(line: int, column: int) -> int:
            # A bare tuple got parentheses that it has not.
            at = (
                starts[line - 1] + column - (1 if line == 1 else 0)
                if line <= len(starts)
                else len(text)
            )
            return where.start + min(max(at, 0), len(text))

        for mine, other in zip(walk(node), walk(parsed), strict=True):
            if hasattr(other, "lineno"):
                o: Any = other
                self.put(
                    mine, offset(o.lineno, o.col_offset), offset(o.end_lineno, o.end_col_offset)
                )

    def pieces(
        self, at: int, end: int, *, raw: bool, stop: bytes
    ) -> tuple[list[_Field | Span], int]:
        """The texts and fields from ``at`` to ``end``, or to ``stop`` (the ``}`` that ends a format)."""
        found: list[_Field | Span] = []
        start = at
        while at < end:
            mark = self.data[at : at + 1]
            if mark == stop and stop:
                break
            if mark == b"\\" and not raw:
                named = re.compile(rb"\\N\{[^}]*\}").match(self.data, at, end)
                at = named.end() if named else at + 2
            elif mark in b"{}" and self.data[at + 1 : at + 2] == mark and not stop:
                at += 2
            elif mark == b"{":
                if at > start:
                    found.append(Span(start, at))
                field = self._field(at, end, raw=raw)
                found.append(field)
                at = start = field.end
            else:
                at += 1
        if at > start:
            found.append(Span(start, at))
        return found, at

    def _field(self, begin: int, end: int, *, raw: bool) -> _Field:
        stop = self._expression_end(begin + 1, end)
        text = self.data[begin + 1 : stop]
        equals = re.compile(rb"(?<![=!<>])=[ \t\r\n]*$").search(text)
        expression = Span(begin + 1, begin + 1 + equals.start() if equals else stop)
        debug = Span(begin + 1, stop) if equals else None
        at = stop
        if self.data[at : at + 1] == b"!":
            at += 2
            while self.data[at : at + 1] in (b" ", b"\t"):
                at += 1
        spec: Span | None = None
        inner: tuple[_Field, ...] = ()
        if self.data[at : at + 1] == b":":
            parts, close = self.pieces(at + 1, end, raw=raw, stop=b"}")
            spec = Span(at, close)
            inner = tuple(part for part in parts if isinstance(part, _Field))
            at = close
        if self.data[at : at + 1] != b"}":
            raise _Lost
        return _Field(begin, expression, debug, spec, inner, at + 1)

    def _expression_end(self, at: int, end: int) -> int:
        """Where the expression ends: at ``!r``, ``:`` or ``}`` outside of brackets and strings."""
        depth = 0
        for token, start in self._tokens(at, end):
            if token in (b"(", b"[", b"{"):
                depth += 1
            elif depth and token in (b")", b"]", b"}"):
                depth -= 1
            elif (depth == 0 and token in (b"}", b":")) or (depth == 0 and token == b"!"):
                return start
        raise _Lost

    def _tokens(self, at: int, end: int) -> Iterator[tuple[bytes, int]]:
        while at < end:
            head = _LITERAL.match(self.data, at, end)
            if head:
                body = _BODY[head["mark"]].match(self.data, head.end(), end)
                if body is None:
                    raise _Lost
                at = body.end()
                continue
            word = re.compile(rb"\w+|!=").match(self.data, at, end)
            if word:
                at = word.end()
                continue
            yield self.data[at : at + 1], at
            at += 1
