"""The values of a JSON text with their places; comments and trailing commas are let pass."""

from __future__ import annotations

import json
import re
from typing import Any

from hpushim.engine.entries import DEPTH, Entry
from hpushim.engine.text import Offsets
from hpushim.model import Span

_TOKEN = re.compile(
    r'(?P<space>[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<scalar>-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity)|(?P<mark>[][{},:])",
    re.DOTALL,
)


class _Bad(Exception):
    """Not JSON."""


def entries(text: str) -> tuple[Entry, ...]:
    """Every value in source order; empty when the text is no JSON."""
    try:
        return tuple(_Reader(text).read())
    except (_Bad, ValueError):
        return ()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.span = Offsets(text).span
        self.tokens = list(self._tokens())
        self.found: list[Entry | None] = []

    def _tokens(self) -> Any:
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise _Bad
            at = match.end()
            if match.lastgroup != "space":
                yield match.lastgroup, match.group(), match.start(), match.end()

    def read(self) -> list[Entry]:
        """One pass with a stack."""
        # A level: its path, the place of its entry, is it an object, its start and key, items so far.
        levels: list[list[Any]] = []
        path: tuple[str | int, ...] = ()
        key: Span | None = None
        wants = "value"
        for group, word, start, end in self.tokens:
            if wants == "key" and group == "string":
                path = (*levels[-1][0], json.loads(word, strict=False))
                key, wants = self.span(start, end), "colon"
            elif wants == "colon" and word == ":":
                wants = "value"
            elif wants in ("value", "first") and word in ("{", "["):
                if len(levels) == DEPTH:
                    raise _Bad
                levels.append([path, len(self.found), word == "{", start, key, 0])
                self.found.append(None)
                wants, key = ("key", None) if word == "{" else ("first", None)
                path = path if word == "{" else (*path, 0)
            elif wants in ("value", "first") and group in ("string", "scalar"):
                value = json.loads(word, strict=False)
                quote = '"' if group == "string" else ""
                span = self.span(start, end)
                self.found.append(Entry(path, "scalar", span, key, value, quote))
                wants = "next" if levels else "end"
            elif wants == "next" and word == ",":
                level = levels[-1]
                level[5] += 1
                wants, key = ("key", None) if level[2] else ("first", None)
                path = level[0] if level[2] else (*level[0], level[5])
            elif (
                wants in ("next", "key", "first")
                and levels
                and word == ("}" if levels[-1][2] else "]")
            ):
                where, place, is_object, first, own_key, _ = levels.pop()
                kind: Any = "mapping" if is_object else "sequence"
                self.found[place] = Entry(where, kind, self.span(first, end), own_key, None)
                wants = "next" if levels else "end"
            else:
                raise _Bad
        if wants != "end":
            raise _Bad
        return [entry for entry in self.found if entry is not None]
