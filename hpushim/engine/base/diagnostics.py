"""The findings that the engine itself gives: about files and rewrites, never about CUDA."""

from __future__ import annotations

from hpushim.model import Finding, Fix, Severity, Span

#: Code → name and severity. The page of these codes is a page among the rules'.
CODES: dict[str, tuple[str, Severity]] = {
    "HPU001": ("file-does-not-parse", "error"),
    "HPU002": ("file-not-decodable", "error"),
    "HPU003": ("file-left-out", "info"),
    "HPU004": ("rewrite-taken-back", "error"),
    "HPU006": ("rewrites-overlap", "warning"),
    "HPU007": ("suppression-unused", "info"),
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
    name, severity = CODES[code]
    line, column = start
    end_line, end_column = end or start
    return Finding(
        code=code,
        name=name,
        severity=severity,
        safety=fix.safety if fix else "manual",
        message=message,
        span=span,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        fix=fix,
    )
