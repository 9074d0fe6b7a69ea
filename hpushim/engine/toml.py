"""The values of a TOML text with their places. tomli says whether it is TOML; this only walks it."""

from __future__ import annotations

import re
from typing import Any

from hpushim.engine.entries import Entry
from hpushim.engine.text import Offsets
from hpushim.model import Span

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?")


def entries(text: str) -> tuple[Entry, ...]:
    """Every value in source order; empty when the text is no TOML."""
    import tomli

    try:
        tomli.loads(text)
        return tuple(_Reader(text).read())
    except (ValueError, RecursionError, AttributeError, IndexError):
        return ()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.span = Offsets(text).span
        self.at = 0
        self.found: list[Entry] = []
        self.arrays: dict[tuple[str | int, ...], int] = {}

    def skip(self, pattern: re.Pattern[str] = _SPACE) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def read(self) -> list[Entry]:
        table: tuple[str | int, ...] = ()
        while True:
            self.skip()
            if self.at >= len(self.text):
                return self.found
            if self.text.startswith("[", self.at):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> tuple[str | int, ...]:
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        keys, _ = self._key()
        self.skip(_BLANK)
        self.at += 2 if array else 1
        path: tuple[str | int, ...] = ()
        for number, key in enumerate(keys):
            path = (*path, key)
            last = number == len(keys) - 1
            if array and last:
                self.arrays[path] = self.arrays.get(path, -1) + 1
            if path in self.arrays:
                path = (*path, self.arrays[path])
        return path

    def _key(self) -> tuple[list[str], Span]:
        keys: list[str] = []
        self.skip(_BLANK)
        start = self.at
        while True:
            self.skip(_BLANK)
            match = _STRING.match(self.text, self.at) or _BARE.match(self.text, self.at)
            if match is None:
                raise ValueError
            self.at = match.end()
            word = match.group()
            keys.append(_value(word) if word[0] in "\"'" else word)
            end = self.at
            self.skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return keys, self.span(start, end)
            self.at += 1

    def _pair(self, table: tuple[str | int, ...]) -> None:
        keys, span = self._key()
        self.skip(_BLANK)
        if self.text[self.at] != "=":
            raise ValueError
        self.at += 1
        self.skip(_BLANK)
        self._any((*table, *keys), span)

    def _any(self, path: tuple[str | int, ...], key: Span | None) -> None:
        start, place = self.at, len(self.found)
        opening = self.text[self.at]
        if opening in "[{":
            self.at += 1
            self._items(path, "]" if opening == "[" else "}")
            kind: Any = "sequence" if opening == "[" else "mapping"
            self.found.insert(place, Entry(path, kind, self.span(start, self.at), key, None))
            return
        match = _STRING.match(self.text, self.at) or _SCALAR.match(self.text, self.at)
        if match is None:
            raise ValueError
        self.at = match.end()
        word = match.group()
        quote = (
            "" if word[0] not in "\"'" else (word[:3] if word[:3] in ('"""', "'''") else word[0])
        )
        self.found.append(
            Entry(path, "scalar", self.span(start, self.at), key, _value(word), quote)
        )

    def _items(self, path: tuple[str | int, ...], closing: str) -> None:
        number = 0
        while True:
            self.skip()
            if self.text[self.at] == closing:
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
            elif closing == "}":
                self._pair(path)
            else:
                self._any((*path, number), None)
                number += 1


def _value(word: str) -> Any:
    import tomli

    value = tomli.loads(f"x = {word}")["x"]
    return value if isinstance(value, (str, bool, int, float)) else str(value)
