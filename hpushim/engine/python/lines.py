"""Lines that a rewrite has made too long, broken as Black breaks them: behind the bracket that holds most, then one part a line."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from hpushim.model import Edit, Span

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: A line as long as the longest of its file may be, between these two.
_LIMITS = (88, 120)
_OPEN, _CLOSED = "([{", ")]}"
#: What may be behind the brackets that are broken: attributes, calls and subscripts that go on with the value.
_TRAILERS = re.compile(r"[)\]}](?:\.\w+|\([^()]*\)|\[[^\[\]]*\]|[)\]}])*:?")


def limit(text: str) -> int:
    """How long a line of a file may be, by those that it has."""
    least, most = _LIMITS
    return max(least, min(most, max(map(len, text.splitlines()), default=0)))


def longest(data: bytes, span: Span) -> int:
    """The length of the longest line that a place in a file touches."""
    end = data.find(b"\n", span.end)
    text = data[data.rfind(b"\n", 0, span.start) + 1 : end if end >= 0 else len(data)]
    return max(map(len, text.decode("utf-8", "replace").splitlines()), default=0)


def broken(module: Module, changed: Iterable[Span], most: int) -> list[Edit]:
    """The edits that break the lines in the changed places which are longer than ``most``."""
    lines = {module.position(at)[0] for span in changed for at in (span.start, span.end)}
    found: list[Edit] = []
    for number in lines:
        edit = _arguments(module, number, most)
        if edit is not None:
            found.append(edit)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.stmt) and node.lineno in lines:
            edit = _broken(module, node, most)
            if edit is not None:
                found.append(edit)
    return sorted(found, key=lambda edit: edit.span)


def _broken(module: Module, node: ast.stmt, most: int) -> Edit | None:
    body = getattr(node, "body", None)
    span = module.line_span(node.lineno)
    line = module.source(span).rstrip("\r\n")
    code = line.lstrip()
    if len(line) <= most or "\t" in line or module.indent(node) + code != line:
        return None
    last = body[0].lineno - 1 if body else node.end_lineno
    if last is None or (last > node.lineno and not body) or (body and last < node.lineno):
        return None
    tokens = _tokens(code)
    if not tokens or any(t.type == tokenize.COMMENT or t.string == ";" for t in tokens):
        return None
    depth = sum((t.string in _OPEN) - (t.string in _CLOSED) for t in tokens if t.type == tokenize.OP)  # fmt: skip
    if depth or module.start(node) != span.start + len(line.encode()) - len(code.encode()):
        return None
    indent = module.indent(node)
    deeper = indent + module.deeper(node)
    choice = _choice(node, code)
    parts = choice or _parts(code, tokens)
    if parts is None:
        return None
    first, inner, end = parts
    inside = [f"{deeper}{', '.join(inner)}"]
    if choice or len(inside[0]) > most:
        inside = [f"{deeper}{each}{'' if choice else ','}" for each in inner]
    if len(indent + end) > most or (len(inner) < 2 and any(len(each) > most for each in inside)):
        return None
    text = module.newline.join((first, *inside, f"{indent}{end}"))
    return Edit(Span(module.start(node), span.start + len(line.encode())), code, text)


def _arguments(module: Module, number: int, most: int) -> Edit | None:
    """The arguments of a call that are in one line, between that of the opening bracket and that of the closing one."""
    text = module.text.splitlines()
    if not 1 < number < len(text) or len(text[number - 1]) <= most:
        return None
    above, line, below = text[number - 2 : number + 1]
    if not above.endswith(tuple(_OPEN)) or not below.lstrip().startswith(tuple(_CLOSED)):
        return None
    code = line.lstrip()
    tokens = _tokens(f"({code})")
    if any(t.type == tokenize.COMMENT or t.string == "for" for t in tokens):
        return None
    parts = _parts(f"({code})", tokens)
    if parts is None or len(parts[1]) < 2 or parts[0] != "(":
        return None
    span = module.line_span(number)
    start = span.start + len(line.encode()) - len(code.encode())
    indent = line[: len(line) - len(code)]
    new = f",{module.newline}{indent}".join(parts[1])
    return Edit(Span(start, span.start + len(line.encode())), code, f"{new},")


def _tokens(code: str) -> list[tokenize.TokenInfo]:
    found: list[tokenize.TokenInfo] = []
    with suppress(tokenize.TokenError, IndentationError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            found.append(token)
    return [t for t in found if t.string.strip()]


def _choice(node: ast.stmt, code: str) -> tuple[str, list[str], str] | None:
    """``x = a if b else c``, in parentheses, over three lines."""
    value = getattr(node, "value", None)
    if not isinstance(node, (ast.Assign, ast.Return)) or not isinstance(value, ast.IfExp):
        return None
    data = code.encode()
    start = value.col_offset - node.col_offset
    if value.end_lineno != node.lineno or data[start - 1 : start] == b"(":
        return None

    def shown(part: ast.expr) -> tuple[int, int]:
        return part.col_offset - node.col_offset, (part.end_col_offset or 0) - node.col_offset

    (body, _), (test, _), (other, _) = map(shown, (value.body, value.test, value.orelse))
    one, two, three = data[body:test], data[test:other], data[other:]
    if not one.rstrip().endswith(b"if") or not two.rstrip().endswith(b"else"):
        return None
    first = one.rstrip().removesuffix(b"if").strip().decode()
    second = f"if {two.rstrip().removesuffix(b'else').strip().decode()}"
    return data[:start].decode() + "(", [first, second, f"else {three.decode()}"], ")"


def _parts(code: str, tokens: Sequence[tokenize.TokenInfo]) -> tuple[str, list[str], str] | None:
    """What is in front of the brackets that hold most, what is in them, and what is behind."""
    pairs: list[tuple[int, int]] = []
    opened: list[int] = []
    for token in tokens:
        if token.type == tokenize.OP and token.string in _OPEN:
            opened.append(token.start[1])
        elif token.type == tokenize.OP and token.string in _CLOSED:
            start = opened.pop() if opened else 0
            if not opened:
                pairs.append((start, token.start[1]))
    filled = [(one, two) for one, two in pairs if code[one + 1 : two].strip()]
    if not filled:
        return None
    start, end = max(filled, key=lambda pair: pair[1] - pair[0])
    if not _TRAILERS.fullmatch(code[end:]) or any(t.string == "for" and start < t.start[1] < end for t in tokens):  # fmt: skip
        return None
    inner, depth, at = [], 0, start + 1
    for token in tokens:
        place = token.start[1]
        if not start < place < end or token.type != tokenize.OP:
            continue
        depth += (token.string in _OPEN) - (token.string in _CLOSED)
        if token.string == "," and not depth:
            inner.append(code[at:place].strip())
            at = place + 1
    inner.append(code[at:end].strip())
    return code[: start + 1], [each for each in inner if each], code[end:]
