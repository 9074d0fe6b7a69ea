"""The code cells of a notebook: the strings that hold their source, and what of it is Python."""

from __future__ import annotations

import ast
import bisect
import json
import re
from collections.abc import Callable
from functools import cached_property
from itertools import accumulate

from hpushim.engine.base.text import blank
from hpushim.model import Span
from hpushim.patterns import lazily

#: Cell magics whose cell is Python from the second line on.
_PYTHON_MAGICS = frozenset(
    {"time", "timeit", "capture", "prun", "python", "python3", "debug", "memit"}
)
#: What a line that is no Python cannot be without.
_MARKS = (b"%", b"!", b"?")
_MAGIC_LINE = lazily(rb"[ \t]*(?:[%!?]|[\w.\[\]'\"]+\?{1,2}[ \t]*$)")
#: What writes its cell's other lines to a Python file.
_WRITES = lazily(
    rb"%%(?:write)?file[ \t]+(?:-a[ \t]+|--append[ \t]+)?[\"']?[^\s\"']+\.py[\"']?[ \t]*"
)
_MAGIC_VALUE = lazily(rb"([ \t]*[\w., \t\[\]]*[\w\]][ \t]*=[ \t]*)[%!]")
_ESCAPE = lazily(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)


class Piece:
    """One JSON string of a cell's source: a line, or the whole cell."""

    def __init__(self, raw: bytes, span: Span, value: str) -> None:
        self.span = span
        self.inner = raw[span.start + 1 : span.end - 1]
        self.text: bytes = value.encode("utf-8", "surrogatepass")

    @cached_property
    def _steps(self) -> tuple[list[int], list[int]]:
        """Byte offsets in the text and in the raw string, at every character."""
        text, raw = [0], [0]
        for match in _ESCAPE.finditer(self.inner.decode()):
            word = match.group()
            value = json.loads(f'"{word}"', strict=False) if word[0] == "\\" else word
            text.append(text[-1] + len(value.encode("utf-8", "surrogatepass")))
            raw.append(raw[-1] + len(word.encode()))
        return text, raw

    def raw(self, offset: int) -> int:
        """Where in the notebook's text a byte of this string's value is."""
        if b"\\" not in self.inner:
            return self.span.start + 1 + offset
        text, raw = self._steps
        return self.span.start + 1 + raw[bisect.bisect_right(text, offset) - 1]


class Cell:
    """One code cell and where it is in the joined text."""

    def __init__(
        self, number: int, text: str, pieces: Callable[[], list[Piece]], *, listed: bool
    ) -> None:
        self.number = number
        self.listed = listed
        self._made = pieces
        self.text = text.encode("utf-8", "surrogatepass")
        self.start = 0
        #: The text with what is not Python blanked, and why it is no Python all the same.
        self.python = self.text
        self.error: str | None = None
        self._mask()
        if self.error is None and not self._utf8():
            self.error = "it holds half a character"
            self.python = _blank(self.text)

    @cached_property
    def pieces(self) -> list[Piece]:
        """The strings that hold it, which few cells need."""
        return self._made()

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(piece.text) for piece in self.pieces))

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def ends_empty(self) -> bool:
        return self.listed and len(self.pieces) > 1 and not self.pieces[-1].inner

    @cached_property
    def magic(self) -> int | None:
        """The line of the magic that says what the cell is; as in Colab, comments may come before it."""
        for number, line in enumerate(self.text.split(b"\n")):
            line = line.strip()
            if line and not line.startswith(b"#"):
                return number if line.startswith(b"%%") else None
        return None

    @cached_property
    def written(self) -> bytes | None:
        """The Python file that the cell writes, in the cell's own places; None where it writes none."""
        at = self.magic
        lines = self.text.split(b"\n")
        if at is None or not _WRITES.fullmatch(lines[at].strip()):
            return None
        return b"\n".join([*map(_blank, lines[: at + 1]), *lines[at + 1 :]])

    def piece(self, offset: int, *, forward: bool) -> tuple[int, int]:
        """The string that holds an offset of the cell, and the offset in it.

        Between two strings ``forward`` chooses the second.
        """
        find = bisect.bisect_right if forward else bisect.bisect_left
        index = min(find(self._ends, offset), len(self.pieces) - 1)
        piece = self.pieces[index]
        inside = offset - (self._ends[index] - len(piece.text))
        return index, min(inside, len(piece.text))

    def raw(self, offset: int, *, forward: bool = True) -> int:
        index, inside = self.piece(offset, forward=forward)
        return self.pieces[index].raw(inside)

    def editable(self, start: int, end: int) -> bool:
        """Do the lines that an edit touches hold nothing that was blanked?"""
        if self.python == self.text:
            return True
        first = self.text.rfind(b"\n", 0, start) + 1
        last = self.text.find(b"\n", end)
        last = len(self.text) if last < 0 else last
        return self.text[first:last] == self.python[first:last]

    def _utf8(self) -> bool:
        try:
            self.text.decode()
        except UnicodeDecodeError:
            return False
        return True

    def check(self) -> None:
        """Blanks the cell where it is not Python by itself, and says why."""
        if self.error is None:
            self.error = _parses(self.python)
            if self.error is not None:
                self.python = _blank(self.text)

    def _mask(self) -> None:
        """Blanks the lines of magics and commands, where the cell has any and is no Python as it is."""
        if not any(mark in self.text for mark in _MARKS):
            return
        lines = self.text.split(b"\n")
        has_magic = any(_MAGIC_LINE.match(line) or _MAGIC_VALUE.match(line) for line in lines)
        if not has_magic or _parses(self.text) is None:
            return
        at = self.magic
        if at is not None:
            magic = lines[at].strip()[2:].split(b" ")[0].strip().decode(errors="replace")
            if magic not in _PYTHON_MAGICS:
                self.python = _blank(self.text)
                return
        masked: list[bytes] = []
        continued = False
        for line in lines:
            value = _MAGIC_VALUE.match(line)
            if continued:
                masked.append(b" " * len(line))
            elif _MAGIC_LINE.match(line):
                indent = len(line) - len(line.lstrip())
                masked.append(line[:indent] + _statement(len(line) - indent))
            elif value:
                masked.append(value.group(1) + b"0".ljust(len(line) - value.end(1)))
            else:
                masked.append(line)
            continued = masked[-1] != line and line.rstrip().endswith(b"\\")
        self.python = b"\n".join(masked)


def _parses(data: bytes) -> str | None:
    try:
        ast.parse(data.decode())
    except SyntaxError as error:
        return f"{error.msg}, line {error.lineno}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or error.__class__.__name__
    return None


def _blank(data: bytes) -> bytes:
    return blank(data, returns=False)


def _statement(length: int) -> bytes:
    """A statement that does nothing, of a length."""
    return b"pass".ljust(length) if length >= 4 else b"0".ljust(length)
