"""Edits of shell text: a value at the end of a word, a line in front of a command."""

from __future__ import annotations

from hpushim.engine.data.document import Document
from hpushim.engine.shell.words import Word
from hpushim.model import Edit, Span


def revalue(document: Document, word: Word, value: str, new: str) -> Edit:
    """Puts ``new`` in the place of ``value``, the end of the word."""
    written = document.source(word.span)
    at = written.rindex(value)
    start = word.span.start + len(written[:at].encode())
    return document.replace(Span(start, start + len(value.encode())), new)


def line_before(document: Document, at: int, text: str) -> Edit:
    """Puts a line in front of the statement that holds the byte ``at``."""
    line, _ = document.position(at)
    while line > 1 and document.text_at(document.line_span(line - 1)).rstrip("\r\n").endswith("\\"):
        line -= 1
    span = document.line_span(line)
    written = document.text_at(span)
    indent = written[: len(written) - len(written.lstrip(" \t"))]
    return document.insert(span.start, f"{indent}{text}{document.newline}")
