"""Jupyter notebooks: the code cells as one Python text, edits back into the strings that hold them.

The cells of a notebook share their names, so rules see them as one module, in order. Lines that are not
Python (``%magic``, ``!command``, ``name?``) are blanked to statements of the same length. An edit becomes an edit of the
JSON text inside the string of its line: outputs, metadata, indentation and escapes stay byte for byte.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator
from copy import copy
from functools import cached_property, partial
from itertools import islice
from typing import Any

import msgspec

from hpushim.engine.base.text import blank
from hpushim.engine.data.cells import Cell, Piece
from hpushim.engine.data.json import Part, Walk
from hpushim.model import Edit, Span

#: A word of a JSON string with something escaped.
_ESCAPED = re.compile(rb"\S*\\\S*")
#: A string of JSON that is known to be well formed.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class Notebook:
    """The code cells of one notebook, joined. Raises ValueError where the text is no notebook."""

    def __init__(self, text: str, data: bytes | None = None) -> None:
        #: The text in UTF-8, which who has it already may give.
        self.data = text.encode() if data is None else data
        cells = _plain(self.data)
        self.cells = _Reader(self.data).cells() if cells is None else cells
        self.ascii = text.isascii()
        self._starts: list[int] = []
        #: The one cell that this is about, if it is not about all that are the notebook's own code.
        self.only: Cell | None = None
        #: The Python text of all cells.
        self.python = ""
        self._join()

    def _join(self) -> None:
        parts: list[bytes] = []
        at = 0
        for cell in self.cells:
            cell.start = at
            ending = b"" if cell.python.endswith(b"\n") else b"\n"
            parts.append(cell.python + ending)
            at += len(parts[-1])
        self.python = b"".join(parts).decode()
        self._starts = [cell.start for cell in self.cells]

    def written(self) -> Iterator[Notebook]:
        """The same notebook for each cell that writes a Python file, with nothing but this file as its Python text."""
        for at, cell in enumerate(self.cells):
            if b"%%" in cell.text and cell.written is not None:
                view = copy(self)
                view.cells = [copy(each) for each in self.cells]
                for each in view.cells:
                    each.python, each.error = blank(each.text, returns=False), None
                view.only = view.cells[at]
                view.only.python = cell.written
                view._join()
                yield view

    def check(self) -> None:
        """Blanks every cell that is not Python by itself."""
        for cell in self.cells:
            cell.check()
        self._join()

    def cell(self, offset: int) -> Cell:
        return self.cells[max(bisect.bisect_right(self._starts, offset) - 1, 0)]

    def span(self, span: Span) -> Span:
        """A span of the joined text in the notebook's own text."""
        cell = self.cell(span.start)
        start = cell.raw(min(span.start - cell.start, len(cell.text)))
        last = self.cell(max(span.end - 1, span.start))
        end = last.raw(min(span.end - last.start, len(last.text)), forward=False)
        return Span(start, max(start, end))

    def commands(self) -> Iterator[tuple[int, bytes]]:
        """Of each cell with ``!`` lines or ``%%bash`` where it starts, and its text with nothing left but these.

        Words with something escaped are left out. What lies between cells, pictures above all, is no part of it.
        """
        for cell in self.cells:
            if b"!" not in cell.text and b"%%" not in cell.text:
                continue
            start, end = cell.pieces[0].span.start, cell.pieces[-1].span.end
            kept = bytearray(blank(self.data[start:end]))
            at = cell.magic
            first = cell.text.split(b"\n")[at or 0].strip()
            whole = first in (b"%%bash", b"%%sh", b"%%script bash")
            ended: int | None = None  # where the line before ends, if it goes on
            for number, piece in enumerate(cell.pieces):
                line = piece.text.strip()
                mine = (whole and number > (at or 0)) or (
                    line.startswith(b"!") and not line.startswith(b"!=")
                )
                place = piece.span.start + 1 - start
                if ended is not None:
                    mine = True
                    kept[ended:place] = b" " * (place - ended)
                raw = piece.inner.removesuffix(b"\\n")
                goes_on = mine and line.endswith(b"\\") and raw.endswith(b"\\\\")
                body = _shown(raw[:-2]) + b" \\" if goes_on else _shown(raw)
                end = place + len(raw)
                mine = mine and b"\\n" not in raw
                ended = end + 1 if goes_on else None
                if mine:
                    if not whole and line.startswith(b"!"):
                        body = body.replace(b"!", b" ", 1)
                    kept[place:end] = body
                    kept[end : end + 1] = b"\n"
            if not kept.isspace():
                yield start, bytes(kept)

    # -- edits ------------------------------------------------------------------------------

    def edit(self, edit: Edit) -> Edit | None:
        """The edit of the notebook's text that does what an edit of the joined text requests."""
        start, end, new = edit.span.start, edit.span.end, edit.new
        cell = self.cell(start)
        if self.only not in (None, cell):
            return None
        if start == end == cell.start and cell.number and new.endswith("\n"):
            before = self._before(cell)
            if (
                before is not None
                and before.text
                and before.error is None
                and before.editable(len(before.text), len(before.text))
            ):
                # Between two cells: the end of the one before.
                cell, start, end = before, before.end, before.end
                new = "\n" * (not before.text.endswith(b"\n")) + new[:-1]
        if start > cell.end:
            return None
        if end > cell.end:
            # The newline that joins two cells is in neither.
            if end > cell.end + 1:
                return None
            end = cell.end
            new = new.removesuffix("\n")
        a, b = start - cell.start, end - cell.start
        if not cell.pieces or not cell.editable(a, b):
            return None
        first = cell.raw(a)
        last = cell.raw(b) if b > a else first
        old = self.data[first:last].decode()
        return Edit(Span(first, last), old, self._escaped(cell, old, new, b))

    def _escaped(self, cell: Cell, old: str, new: str, end: int) -> str:
        """The new text as it is in a JSON string; a newline starts the next string of the list."""
        escaped = json.dumps(new, ensure_ascii=self.ascii)[1:-1]
        if not cell.listed:
            return escaped
        lead = tail = ""
        index, inside = cell.piece(end, forward=True)
        if new and end == len(cell.text) and old == "" and cell.text.endswith(b"\n"):
            lead = '"' + self._separator(cell) + '"'  # the last string holds a whole line already
        if escaped.endswith("\\n") and inside == len(cell.pieces[index].text):
            # Nothing of the string is left behind it: no empty string is made.
            escaped, tail = escaped[:-2], "\\n"
        return lead + escaped.replace("\\n", '\\n"' + self._separator(cell) + '"') + tail

    def _separator(self, cell: Cell) -> str:
        """What is between two strings of a list: the cell's own, or another cell's."""
        other = cell if _parted(cell) else self._first_parted
        if other is not None:
            a, b = other.pieces[0].span.end, other.pieces[1].span.start
            return self.data[a:b].decode()
        if len(cell.pieces) == 1:
            end = start = cell.pieces[0].span.start
            while start and self.data[start - 1] in b" \t\r\n":
                start -= 1
            return f",{self.data[start:end].decode()}"
        return ", "

    @cached_property
    def _first_parted(self) -> Cell | None:
        return next(filter(_parted, self.cells), None)

    def _before(self, cell: Cell) -> Cell | None:
        """The code cell before ``cell``."""
        at = bisect.bisect_left(self._starts, cell.start)
        return self.cells[at - 1] if at else None


def _shown(raw: bytes) -> bytes:
    """A line of a JSON string as it is read, with blanks in place of the words that are written otherwise there."""
    quoted = raw.replace(b"\\t", b"  ").replace(
        b'\\"', b'""'
    )  # an empty text before what was in quotes
    return _ESCAPED.sub(lambda found: blank(found[0]), quoted)


def _parted(cell: Cell) -> bool:
    """Is something between two strings of its list?"""
    return cell.listed and len(cell.pieces) > 1


def unproven(before: Notebook, after: str) -> str | None:
    """Why a changed notebook cannot be trusted: fewer cells, or a cell that was Python and is not now."""
    try:
        changed = Notebook(after)
    except ValueError as error:
        return f"the result is not a notebook ({error})"
    old, new = before.cells, changed.cells
    if len(old) != len(new):
        return f"the notebook had {len(old)} code cells and has {len(new)}"
    for was, now in zip(old, new, strict=True):
        if was.text != now.text:
            was.check()
            now.check()
            if now.error is not None and was.error is None:
                return f"code cell {now.number} is no longer valid Python ({now.error})"
    return None


def tidy(before: Notebook, after: str) -> list[Edit]:
    """The edits that take away the empty string which a deleted last line of a cell leaves behind, with the blank lines above it.

    Empty strings that were there before stay.
    """
    edits: list[Edit] = []
    changed = Notebook(after)
    for old, new in zip(before.cells, changed.cells, strict=False):
        if not new.ends_empty or old.ends_empty:
            continue
        last, blank = new.pieces[-1], 1
        while blank < len(new.pieces) - 1 and not new.pieces[-1 - blank].text.strip():
            blank += 1
        above = new.pieces[-1 - blank]
        ended = old.text.endswith(b"\n")
        end = above.span.end - 1
        # The cell ends as it did: a last line without a newline, or with one.
        start = end - 2 if above.text.endswith(b"\n") and not ended else end
        gone = Span(start, last.span.end - 1)
        edits.append(Edit(gone, changed.data[gone.start : gone.end].decode(), ""))
    return edits


_NOTHING = msgspec.Raw()
_COLON = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")
_ITEM = re.compile(rb"[ \t\r\n,]*")
_END = ord("]")


class _Named(msgspec.Struct, frozen=True):
    name: str = ""
    language: str = ""


class _About(msgspec.Struct, frozen=True):
    language_info: _Named = _Named()
    kernelspec: _Named = _Named()


class _Whole(msgspec.Struct):
    """A notebook as most are: the values of its cells unread."""

    cells: list[msgspec.Raw] = []
    metadata: _About = _About()
    worksheets: msgspec.Raw = _NOTHING


class _Parts(msgspec.Struct):
    """A cell: what is no source is passed over."""

    cell_type: str | None = None
    source: msgspec.Raw = _NOTHING
    input: msgspec.Raw = _NOTHING


_whole = msgspec.json.Decoder(_Whole).decode
_parts = msgspec.json.Decoder(_Parts).decode
_lines = msgspec.json.Decoder(str | list[str]).decode


def _plain(data: bytes) -> list[Cell] | None:
    """The code cells of a notebook as most are; None where only going through it part by part says what it holds."""
    at = _cells_at(data)
    if at is None:
        return None
    try:
        whole = _whole(data)
        if whole.worksheets is not _NOTHING:
            return None
        language = whole.metadata.language_info.name or whole.metadata.kernelspec.language
        found: list[Cell] = []
        number = 0
        for raw in whole.cells:
            start = _between(data, at)
            if not data.startswith(raw, start):
                return None
            at = start + len(memoryview(raw))
            cell = _parts(raw)
            number += cell.cell_type is not None
            name, source = b'"source"', cell.source
            if source is _NOTHING:
                name, source = b'"input"', cell.input
            if source is _NOTHING or cell.cell_type != "code":
                continue
            place = _source_at(data, name, source, start, at)
            if place is None:
                return None
            lines = _lines(source)
            if lines != []:
                found.append(_cell(data, number, place, lines))
    except msgspec.MsgspecError:
        return None
    if data[_between(data, at)] != _END or data.find(b'"cells"', at) >= 0:
        return None
    return found if not language or "python" in language.lower() else []


def _cells_at(data: bytes) -> int | None:
    """Where the list of the cells begins: their key is the first one, or is written once."""
    at = data.find(b'"cells"')
    gap = _COLON.match(data, at + 7) if at >= 0 else None
    sure = data[:at].strip() == b"{" or data.find(b'"cells"', at + 1) < 0
    return gap.end() + 1 if gap and sure else None


def _source_at(data: bytes, key: bytes, value: msgspec.Raw, start: int, end: int) -> int | None:
    """Where the source of a cell begins: its key is the last one, or is written once."""
    at = data.rfind(key, start, end)
    gap = _COLON.match(data, at + len(key)) if at >= 0 else None
    if gap is None or not data.startswith(value, gap.end()):
        return None
    sure = data[gap.end() + len(memoryview(value)) : end].strip() == b"}"
    return gap.end() if sure or data.find(key, start, end) == at else None


def _between(data: bytes, at: int) -> int:
    """Where the next item of a list is, or its end."""
    return _ITEM.match(data, at).end()  # type: ignore[union-attr]


def _cell(data: bytes, number: int, at: int, value: str | list[str]) -> Cell:
    """The cell whose source is at a place."""
    listed = isinstance(value, list)
    lines = value if isinstance(value, list) else [value]
    return Cell(number, "".join(lines), partial(_pieces, data, at, lines), listed=listed)


def _pieces(data: bytes, at: int, lines: list[str]) -> list[Piece]:
    strings = _STRING.finditer(data, at)
    return [
        Piece(data, Span(*string.span()), line)
        for line, string in zip(lines, strings, strict=False)
    ]


class _Reader:
    """Goes through the JSON of a notebook once; what is no source of a code cell is passed over.

    It reads each byte as a character, so that places need no counting; the strings that are kept are read again.
    """

    def __init__(self, data: bytes) -> None:
        self._text = data.decode("latin-1")
        self._data = data
        self._walk = Walk(self._text)
        self._language = ""
        self._number = 0

    def cells(self) -> list[Cell]:
        """The code cells; none where the notebook says that its language is another one."""
        walk = self._walk
        start = walk.gap(0)
        if not self._text.startswith("{", start):
            raise ValueError("it does not start with an object")
        found: list[Cell] = []
        for part in walk.parts(start):
            if part.name == "cells":
                if not self._text.startswith("[", part.start):
                    raise ValueError("its cells are not a list")
                found += self._list(part)
            elif part.name == "worksheets" and self._text.startswith("[", part.start):
                for sheet in walk.parts(part.start):
                    found += self._sheet(sheet)
            elif part.name == "metadata":
                self._language = _language(walk.value(part.start))
            else:
                walk.value(part.start)
        if walk.gap(walk.end) != len(self._text):
            raise ValueError("there is text after the notebook")
        return found if not self._language or "python" in self._language else []

    def _sheet(self, sheet: Part) -> Iterator[Cell]:
        if not self._text.startswith("{", sheet.start):
            self._walk.value(sheet.start)
            return
        for part in self._walk.parts(sheet.start):
            if part.name == "cells":
                yield from self._list(part)
            else:
                self._walk.value(part.start)

    def _list(self, cells: Part) -> Iterator[Cell]:
        if not self._text.startswith("[", cells.start):
            self._walk.value(cells.start)
            return
        for part in self._walk.parts(cells.start):
            if not self._text.startswith("{", part.start):
                self._walk.value(part.start)
                continue
            cell = self._cell(part)
            if cell is not None:
                yield cell

    def _cell(self, cell: Part) -> Cell | None:
        start, walk = cell.start, self._walk
        try:
            value = walk.value(start)
        except ValueError:  # a comment, or a comma too many
            value, places = self._parts(start)
        else:
            places = {}
        self._number += "cell_type" in value
        name = next((name for name in ("source", "input") if name in value), None)
        if name is None or value.get("cell_type") != "code":
            return None
        at = places.get(name) or self._place(name, start, walk.end)
        if at is None:
            at = self._parts(start)[1][name]
        return self._made(at, value[name])

    def _parts(self, start: int) -> tuple[dict[object, object], dict[object, int]]:
        """A cell read part by part, and where the values of its keys start."""
        value: dict[object, object] = {}
        places: dict[object, int] = {}
        for part in self._walk.parts(start):
            value[part.name] = self._walk.value(part.start)
            places[part.name] = part.start
        return value, places

    def _place(self, name: str, start: int, end: int) -> int | None:
        """Where the value of a key of a cell starts, where its name is nowhere else in it. In a string its quotes are escaped."""
        key = f'"{name}"'
        at = self._text.find(key, start, end)
        if at < 0 or self._text.find(key, at + 1, end) >= 0:
            return None
        colon = self._walk.gap(at + len(key))
        return self._walk.gap(colon + 1) if self._text.startswith(":", colon) else None

    def _made(self, at: int, value: object) -> Cell | None:
        lines: list[Any] = value if isinstance(value, list) else [value]
        if not lines or not all(isinstance(line, str) for line in lines):
            return None
        strings = [string[0] for string in islice(_STRING.finditer(self._data, at), len(lines))]
        if not all(string.isascii() for string in strings):
            lines = [json.loads(string, strict=False) for string in strings]
        return _cell(self._data, self._number, at, lines if isinstance(value, list) else lines[0])


def _language(metadata: object) -> str:
    """The language that a notebook's metadata names, in small letters; empty where they name none."""
    for table, key in (("language_info", "name"), ("kernelspec", "language")):
        inner = metadata.get(table) if isinstance(metadata, dict) else None
        name = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(name, str):
            return name.lower()
    return ""
