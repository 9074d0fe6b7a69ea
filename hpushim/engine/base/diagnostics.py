"""The findings that the engine itself gives: about files and rewrites, never about CUDA."""

from __future__ import annotations

from hpushim.engine.base.code import Code
from hpushim.model import Finding, Fix, Span

#: The page of these codes is a page among the rules'.
CODES = {
    "HPU001": Code("file-does-not-parse", severity="error"),
    "HPU002": Code("file-not-decodable", severity="error"),
    "HPU003": Code("file-left-out", severity="note"),
    "HPU004": Code("rewrite-taken-back", severity="error"),
    "HPU006": Code("rewrites-overlap"),
    "HPU007": Code("suppression-unused", severity="note", fix=("unsafe", "manual")),
}


def diagnostic(
    code: str,
    message: str,
    span: Span = Span(0, 0),  # noqa: B008 - frozen
    start: tuple[int, int] = (1, 1),
    end: tuple[int, int] | None = None,
    fix: Fix | None = None,
) -> Finding:
    """One finding of the engine's own; ``start`` and ``end`` are line and column."""
    line, column = start
    end_line, end_column = end or start
    return Finding(
        code=code,
        name=CODES[code].name,
        severity=CODES[code].severity,
        safety=fix.safety if fix else "manual",
        message=message,
        span=span,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        fix=fix,
    )
