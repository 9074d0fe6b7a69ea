"""``# hpushim: ignore[HPU102]`` on a line, ``# hpushim: ignore-file[HPU102]`` above the first statement.

Codes are given in full and separated by commas; an ``ignore`` without codes is not accepted. A
directive that silences nothing is a finding of its own.
"""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.base.text import LINE_END, Text
from hpushim.model import Edit, Finding, Fix, Span
from hpushim.patterns import lazily

_DIRECTIVE = lazily(rb"#[ \t]*hpushim:[ \t]*([-\w]+)[ \t]*(?:\[([^\]\r\n]*)\])?")
_CODE = lazily(r"HPU\d{3}$")


@dataclass(slots=True)
class _Directive:
    span: Span
    line: int
    whole_file: bool
    codes: tuple[str, ...]
    wrong: str | None
    used: set[str] = field(default_factory=set)


def suppress(
    text: Text, findings: list[Finding], assessed: Callable[[], Collection[str]], *, python: bool
) -> tuple[list[Finding], frozenset[str]]:
    """The findings that stay, unused directives among them, and the groups that lost a member.

    ``assessed`` gives the codes that could have been found in this run: only those can be called unused.
    """
    if b"hpushim:" not in text.read:
        return findings, frozenset()
    directives = _directives(text, python=python)
    near = _Near(directives).lines
    kept: list[Finding] = []
    held: set[str] = set()
    for finding in findings:
        found = [d for d in near(finding.line, finding.end_line) if finding.code in d.codes]
        for directive in found:
            directive.used.add(finding.code)
        if not found:
            kept.append(finding)
        elif finding.fix is not None and finding.fix.group:
            held.add(finding.fix.group)
    codes = assessed()
    for directive in directives:
        kept += _complaint(text, directive, codes)
    return kept, frozenset(held)


class _Near:
    """The directives that count for a line, without a look at all of them for each finding."""

    def __init__(self, directives: list[_Directive]) -> None:
        self._whole = [d for d in directives if d.whole_file]
        self._ordered = [d for d in directives if not d.whole_file]
        self._lines = [d.line for d in self._ordered]

    def lines(self, first: int, last: int) -> list[_Directive]:
        start, end = bisect_left(self._lines, first), bisect_right(self._lines, last)
        return self._whole + self._ordered[start:end]


def _complaint(text: Text, directive: _Directive, assessed: Collection[str]) -> list[Finding]:
    start, end = text.position(directive.span.start), text.position(directive.span.end)
    if directive.wrong is not None:
        return [diagnostic("HPU007", directive.wrong, directive.span, start, end)]
    idle = [code for code in directive.codes if code in assessed and code not in directive.used]
    if not idle:
        return []
    named = ", ".join(idle)
    message = f"`{text.text_at(directive.span)}` suppresses no finding ({named}); remove it"
    fix = None
    if len(idle) == len(directive.codes):
        span = _with_space(text.data, directive.span)
        fix = Fix("remove the directive", "unsafe", (Edit(span, text.text_at(span), ""),))
    return [diagnostic("HPU007", message, directive.span, start, end, fix)]


def _with_space(data: bytes, span: Span) -> Span:
    """The directive with the blanks before it, and with its line where nothing else is on it."""
    line = max(data.rfind(b"\n", 0, span.start), data.rfind(b"\r", 0, span.start)) + 1
    start = len(data[: span.start].rstrip(b" \t"))
    following = LINE_END.match(data, span.end)
    if start <= line and following:
        return Span(line, following.end())
    return Span(max(start, line), span.end)


def _directives(text: Text, *, python: bool) -> list[_Directive]:
    found: list[_Directive] = []
    comments = _comment_starts(text) if python else None
    header = _header_end(text)
    for match in _DIRECTIVE.finditer(text.data):
        if comments is not None and match.start() not in comments:
            continue
        word, listed = match.group(1).decode(), match.group(2)
        codes = tuple(c.strip().upper() for c in (listed or b"").decode().split(",") if c.strip())
        span = Span(match.start(), match.end())
        line = text.position(span.start)[0]
        whole = word == "ignore-file"
        wrong = None
        if word not in ("ignore", "ignore-file"):
            wrong = f"`hpushim: {word}` is unknown; write `ignore[HPU…]` or `ignore-file[HPU…]`"
        elif not codes:
            wrong = f"`hpushim: {word}` names no code; write `{word}[HPU102]`"
        elif any(not _CODE.match(code) for code in codes):
            bad = next(code for code in codes if not _CODE.match(code))
            wrong = f"`{bad}` is not a code; codes look like HPU102"
        elif whole and line > header:
            wrong = "`ignore-file` works only above the first statement; move it there"
        found.append(_Directive(span, line, whole, codes if wrong is None else (), wrong))
    return found


def _comment_starts(text: Text) -> set[int]:
    """Where the comments of a Python text start: the same words inside a string are none."""
    source = LINE_END.sub(b"\n", text.data).decode()
    starts: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                line = text.line_starts[row - 1]
                head = token.line[:column] if token.line else ""
                for match in _DIRECTIVE.finditer(token.string.encode()):
                    starts.add(line + len(head.encode()) + match.start())
    except (tokenize.TokenError, SyntaxError):
        pass
    return starts


def _header_end(text: Text) -> int:
    """The last line of the comments, blank lines and docstring that the text begins with."""
    quote: bytes | None = None
    for number, line in enumerate(LINE_END.split(text.data), start=1):
        stripped = line.strip()
        if quote is not None:
            if quote in stripped:
                quote = None
            continue
        opened = re.match(rb"[rRuU]?(\"\"\"|'''|\"|')", stripped)
        if opened and stripped.count(opened.group(1)) == 1 and len(opened.group(1)) == 3:
            quote = opened.group(1)
        elif stripped and not stripped.startswith((b"#", b"//", b"---")) and not opened:
            return number - 1
    return len(text.line_starts)
