"""Comments that go with a statement which is taken out: those that speak of it, and of nothing that stays."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_COMMENT = re.compile(r"[ \t\f]*#(?P<text>.*)")
#: Read by tools, or left for somebody.
_KEPT = re.compile(
    r"\s*(type:|noqa|fmt:|isort:|pylint|mypy|ruff|pragma|hpushim|region|endregion|%%|todo|fixme|xxx|note|hack|!|[-=#*]{3})",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]{2,}|[a-z]{2}\d+")
_SHORTEST = 4
#: Said of any code: no sign that the comment speaks of this statement.
_PLAIN = frozenset(["torch", "self", "args", "true", "false", "none", "with", "model", "loss", "optimizer", "step", "data", "train"])  # fmt: skip


def first_line(module: Module, statement: ast.stmt, last: int) -> int:
    """The line at which to start taking ``statement`` out: its own, or that of the one comment line above it.

    ``last`` is the last line that goes. A comment stays unless it stands alone over the statement, uses its words,
    and uses none of the statement that would come under it.
    """
    line = statement.lineno
    text = _comment(module, line - 1)
    if text is None or _comment(module, line - 2) is not None or _KEPT.match(text):
        return line
    spoken = _words(text)
    if not spoken & _words(module.source(statement)):
        return line
    following = _line(module, last + 1)
    if following.strip() and _comment(module, last + 1) is None and spoken & _words(following):
        return line
    return line - 1


def _comment(module: Module, line: int) -> str | None:
    found = _COMMENT.fullmatch(_line(module, line))
    return found["text"] if found else None


def _line(module: Module, line: int) -> str:
    if not 0 < line <= len(module.line_starts):
        return ""
    return module.source(module.line_span(line)).rstrip("\r\n")


def _words(text: str) -> set[str]:
    """The words of a text and the parts of its names, without their endings: ``GradScaler`` scales."""
    found = {word.lower() for word in _WORD.findall(text)}
    stems = {re.sub(r"(ings?|ers?|ed|es|e|s)$", "", word) for word in found - _PLAIN}
    return {stem for stem in stems if len(stem) >= _SHORTEST}
