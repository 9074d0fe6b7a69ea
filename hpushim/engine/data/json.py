"""The values of a JSON text with their places; comments and trailing commas are let pass.

Values are read by Python's own decoder, which says where each ends; this only goes from one to the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hpushim.engine.base.text import Offsets
from hpushim.engine.data.entries import DEPTH, Entry
from hpushim.model import Span

_GAP = re.compile(r"(?:[ \t\r\n\ufeff]+|\xef\xbb\xbf|//[^\n]*|/\*.*?\*/)*", re.DOTALL).match
#: What begins no gap.
_PLAIN = frozenset('":,{}[]')
_DECODER = json.JSONDecoder(strict=False)
_SIMPLE = (str, bool, int, float)


def entries(text: str) -> tuple[Entry, ...]:
    """Every value in source order; ValueError says why the text is no JSON."""
    span = Offsets(text).span
    found: list[Entry | None] = []
    # A container that is open: its path, its place among the entries, its start, its own key, its parts.
    levels: list[tuple[tuple[str | int, ...], int, int, Span | None, Iterator[Part]]] = []
    walk = Walk(text)
    waiting: Part | None = Part(None, (0, 0), walk.gap(0))
    path: tuple[str | int, ...] = ()
    while waiting is not None or levels:
        if waiting is None:
            path, place, start, key, parts = levels[-1]
            waiting = next(parts, None)
            if waiting is None:
                levels.pop()
                kind: Any = "mapping" if text[start] == "{" else "sequence"
                found[place] = Entry(path, kind, span(start, walk.end), key, None)
            else:
                path = (*path, waiting.name) if waiting.name is not None else path
            continue
        part, waiting = waiting, None
        key = span(*part.key) if part.key[1] else None
        if text[part.start : part.start + 1] in ("{", "["):
            if len(levels) == DEPTH:
                raise ValueError("nested too deeply")
            levels.append((path, len(found), part.start, key, walk.parts(part.start)))
            found.append(None)
        else:
            value = walk.value(part.start)
            quote = '"' if isinstance(value, str) else ""
            plain = value if isinstance(value, _SIMPLE) else None
            found.append(Entry(path, "scalar", span(part.start, walk.end), key, plain, quote))
    if (
        text[walk.gap(walk.end) :].startswith(("{", "["))
        and "\n" in text[walk.end : walk.gap(walk.end)]
    ):
        return ()  # a value on each line: records, no settings
    if walk.gap(walk.end) != len(text):
        raise ValueError("there is text after the value")
    return tuple(entry for entry in found if entry is not None)


class Part:
    """A member of an object or an item of an array: its key or number, where the key and the value start."""

    __slots__ = ("key", "name", "start")

    def __init__(self, name: str | int | None, key: tuple[int, int], start: int) -> None:
        self.name = name
        self.key = key
        self.start = start


class Walk:
    """A way through a JSON text by characters. ``end`` is where the last value that was read ends."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0

    def gap(self, at: int) -> int:
        """Where the white space and the comments at ``at`` end."""
        if self.text[at : at + 1] in _PLAIN:
            return at
        found = _GAP(self.text, at)
        return found.end() if found else at

    def value(self, at: int) -> Any:
        """The whole value that starts at ``at``. Raises ValueError."""
        value, self.end = _DECODER.raw_decode(self.text, at)
        return value

    def parts(self, at: int) -> Iterator[Part]:
        """The parts of the object or array that starts at ``at``.

        Each has to be read, with :meth:`value` or :meth:`parts`, before the next is requested. Raises ValueError.
        """
        closing = "}" if self.text[at] == "{" else "]"
        number = 0
        at = self.gap(at + 1)
        while not self.text.startswith(closing, at):
            start, name, key = at, number, (0, 0)
            if closing == "}":
                if not self.text.startswith('"', at):
                    raise ValueError(f"no key at {at}")
                name, colon = _DECODER.raw_decode(self.text, at)
                key = (at, colon)
                start = self.gap(colon)
                if not self.text.startswith(":", start):
                    raise ValueError(f"no colon at {start}")
                start = self.gap(start + 1)
            yield Part(name, key, start)
            number += 1
            at = self.gap(self.end)
            if self.text.startswith(",", at):
                at = self.gap(at + 1)
            elif not self.text.startswith(closing, at):
                raise ValueError(f"no comma at {at}")
        self.end = at + 1
