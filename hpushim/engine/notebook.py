"""Jupyter notebooks: the code cells as one Python text, edits back into the strings that hold them.

The cells of a notebook share their names, so rules see them as one module, in order. Lines that are not
Python (``%magic``, ``!command``, ``name?``) are blanked to statements of the same length. An edit becomes an edit of the
JSON text inside the string of its line: outputs, metadata, indentation and escapes stay byte for byte.
"""

from __future__ import annotations

import ast
import bisect
import json
import re
from collections.abc import Iterable
from functools import cached_property

import msgspec

from hpushim.engine import jsonc
from hpushim.engine.diagnostics import diagnostic
from hpushim.engine.entries import Entry
from hpushim.engine.run import Context, of_python, parse
from hpushim.engine.text import Text
from hpushim.engine.words import Script
from hpushim.model import Edit, Finding, Fix, Span

#: Cell magics whose cell is Python from the second line on.
_PYTHON_MAGICS = frozenset(
    {"time", "timeit", "capture", "prun", "python", "python3", "debug", "memit"}
)
_MAGIC_LINE = re.compile(rb"[ \t]*(?:[%!?]|[\w.\[\]'\"]+\?{1,2}[ \t]*$)")
_MAGIC_VALUE = re.compile(rb"([ \t]*[\w., \t\[\]]*[\w\]][ \t]*=[ \t]*)[%!]")
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]"
)
_ASCII = re.compile(rb"[\x00-\x7f]*")


class _Piece:
    """One JSON string of a cell's source: a line, or the whole cell."""

    def __init__(self, raw: bytes, span: Span) -> None:
        self.span = span
        self.inner = raw[span.start + 1 : span.end - 1]
        self.text: bytes = json.loads(raw[span.start : span.end], strict=False).encode(
            "utf-8", "surrogatepass"
        )

    @cached_property
    def _steps(self) -> tuple[list[int], list[int]]:
        """Byte offsets in the text and in the raw string, at every character."""
        decoded = self.inner.decode()
        text, raw = [0], [0]
        for match in re.finditer(_ESCAPE.pattern.decode(), decoded, re.DOTALL):
            word = match.group()
            value = json.loads(f'"{word}"', strict=False) if word[0] == "\\" else word
            text.append(text[-1] + len(value.encode("utf-8", "surrogatepass")))
            raw.append(raw[-1] + len(word.encode()))
        return text, raw

    def raw(self, offset: int) -> int:
        """Where in the notebook's text a byte of this string's value stands."""
        if b"\\" not in self.inner:
            return self.span.start + 1 + offset
        text, raw = self._steps
        return self.span.start + 1 + raw[bisect.bisect_right(text, offset) - 1]


class _Cell:
    """One code cell and where it stands in the joined text."""

    def __init__(self, number: int, pieces: list[_Piece], *, listed: bool) -> None:
        self.number = number
        self.pieces = pieces
        self.listed = listed
        self.text = b"".join(piece.text for piece in pieces)
        self.start = 0
        self.python = self.text
        self.error: str | None = None
        self._mask()
        if self.error is None and not self._utf8():
            self.error = "it holds half a character"
            self.python = _blank(self.text)

    def _utf8(self) -> bool:
        try:
            self.text.decode()
        except UnicodeDecodeError:
            return False
        return True

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def _mask(self) -> None:
        if _parses(self.text) is None:
            return
        lines = self.text.split(b"\n")
        first = lines[0].lstrip()
        if first.startswith(b"%%"):
            magic = first[2:].split(b" ")[0].strip().decode(errors="replace")
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
        self.error = _parses(self.python)
        if self.error is not None:
            self.python = _blank(self.text)

    def piece(self, offset: int, *, forward: bool) -> tuple[int, int]:
        """The string that holds an offset of the cell, and the offset in it.

        Between two strings ``forward`` chooses the second.
        """
        at = 0
        for index, piece in enumerate(self.pieces):
            inside = offset - at
            last = index == len(self.pieces) - 1
            if inside < len(piece.text) or (inside == len(piece.text) and (last or not forward)):
                return index, inside
            at += len(piece.text)
        return len(self.pieces) - 1, len(self.pieces[-1].text)

    def raw(self, offset: int, *, forward: bool = True) -> int:
        index, inside = self.piece(offset, forward=forward)
        return self.pieces[index].raw(inside)


class Notebook:
    """The code cells of one notebook, joined."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.cells = list(_cells(text))
        self.ascii = _ASCII.fullmatch(text.data) is not None
        parts: list[bytes] = []
        at = 0
        for cell in self.cells:
            cell.start = at
            ending = b"" if cell.python.endswith(b"\n") else b"\n"
            parts.append(cell.python + ending)
            at += len(parts[-1])
        #: The Python text of all cells.
        self.python = b"".join(parts)
        self._starts = [cell.start for cell in self.cells]

    def cell(self, offset: int) -> _Cell:
        return self.cells[max(bisect.bisect_right(self._starts, offset) - 1, 0)]

    def span(self, span: Span) -> Span:
        """A span of the joined text in the notebook's own text."""
        cell = self.cell(span.start)
        start = cell.raw(min(span.start - cell.start, len(cell.text)))
        last = self.cell(max(span.end - 1, span.start))
        end = last.raw(min(span.end - last.start, len(last.text)), forward=False)
        return Span(start, max(start, end))

    def edit(self, edit: Edit) -> Edit | None:
        """The edit of the notebook's text that does what an edit of the joined text asks for."""
        start, end, new = edit.span.start, edit.span.end, edit.new
        cell = self.cell(start)
        if start == end == cell.start and cell.number and new.endswith("\n"):
            before = self.cells[self.cells.index(cell) - 1] if cell is not self.cells[0] else None
            if (
                before is not None
                and before.text
                and _outside(before, len(before.text), len(before.text))
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
        if cell.python[a:b] != cell.text[a:b] or (
            cell.python != cell.text and not _outside(cell, a, b)
        ):
            return None
        if not cell.pieces:
            return None
        first = cell.raw(a)
        last = cell.raw(b) if b > a else first
        old = self.text.data[first:last].decode()
        return Edit(Span(first, last), old, self._escaped(cell, new, b))

    def _escaped(self, cell: _Cell, new: str, end: int) -> str:
        """The new text as it stands in a JSON string; a newline starts the next string of the list."""
        escaped = json.dumps(new, ensure_ascii=self.ascii)[1:-1]
        if not cell.listed:
            return escaped
        tail = ""
        index, inside = cell.piece(end, forward=True)
        if escaped.endswith("\\n") and inside == len(cell.pieces[index].text):
            # Nothing of the string is left behind it: no empty string is made.
            escaped, tail = escaped[:-2], "\\n"
        return escaped.replace("\\n", '\\n"' + self._separator(cell) + '"') + tail

    def _separator(self, cell: _Cell) -> str:
        """What stands between two strings of a list: the cell's own, or another cell's."""
        for other in (cell, *self.cells):
            if other.listed and len(other.pieces) > 1:
                a, b = other.pieces[0].span.end, other.pieces[1].span.start
                return self.text.data[a:b].decode()
        if len(cell.pieces) == 1:
            before = self.text.data[: cell.pieces[0].span.start]
            space = before[len(before.rstrip(b" \t\r\n")) :]
            return f",{space.decode()}"
        return ", "


def findings(text: Text, context: Context) -> list[Finding]:
    """What the Python rules find in the cells, with the places of the notebook's own text."""
    notebook = Notebook(text)
    found: list[Finding] = []
    for cell in notebook.cells:
        if cell.error is not None and cell.pieces:
            place = cell.pieces[0].span
            message = f"cell {cell.number} is not Python ({cell.error}); left as it is"
            start, end = text.position(place.start), text.position(place.end)
            found.append(diagnostic("HPU001", message, place, start, end))
    module = parse(notebook.python.decode(), text.path, context)
    return found + [_moved(notebook, finding) for finding in of_python(module)]


def script(text: Text) -> Script:
    """The commands of ``!`` lines and of ``%%bash`` cells, where the notebook holds them unescaped."""
    from hpushim.engine import shell

    kept = bytearray(re.sub(rb"[^\r\n]", b" ", text.data))
    for cell in Notebook(text).cells:
        first = cell.text.split(b"\n")[0].strip()
        whole = first in (b"%%bash", b"%%sh", b"%%script bash")
        for number, piece in enumerate(cell.pieces):
            line = piece.text.strip()
            mine = (whole and number > 0) or (line.startswith(b"!") and not line.startswith(b"!="))
            raw = piece.inner.removesuffix(b"\\n")
            if mine and b"\\" not in raw:
                at = piece.span.start + 1
                body = raw.replace(b"!", b" ", 1) if not whole else raw
                kept[at : at + len(raw)] = body
                kept[at + len(raw) : at + len(raw) + 1] = b"\n"
    return shell.script(bytes(kept))


def unproven(before: bytes, after: bytes) -> str | None:
    """Why a changed notebook cannot be trusted: fewer cells, or a cell that was Python and is not now."""
    old, new = _broken(before), _broken(after)
    if len(old) != len(new):
        return f"the notebook had {len(old)} code cells and has {len(new)}"
    for number, (was, now) in enumerate(zip(old, new, strict=True)):
        if now is not None and was is None:
            return f"code cell {number + 1} is not Python any more ({now})"
    return None


def tidy(before: bytes, after: bytes) -> tuple[Edit, ...]:
    """The edits that take away the empty string which a deleted last line of a cell leaves behind.

    Empty strings that were there before stay.
    """
    edits: list[Edit] = []
    for old, new in zip(_cells(_Plain(before)), _cells(_Plain(after)), strict=False):
        if not _ends_empty(new) or _ends_empty(old):
            continue
        above, last = new.pieces[-2], new.pieces[-1]
        ended = old.text.endswith(b"\n")
        end = above.span.end - 1
        # The cell ends as it did: a last line without a newline, or with one.
        start = end - 2 if above.text.endswith(b"\n") and not ended else end
        edits.append(
            Edit(Span(start, last.span.end - 1), after[start : last.span.end - 1].decode(), "")
        )
    return tuple(edits)


def _ends_empty(cell: _Cell) -> bool:
    return cell.listed and len(cell.pieces) > 1 and not cell.pieces[-1].inner


def _broken(data: bytes) -> list[str | None]:
    text = _Plain(data)
    return [cell.error for cell in _cells(text)]


class _Plain:
    """Just the text."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.text = data.decode()


def _moved(notebook: Notebook, finding: Finding) -> Finding:
    """A finding in the joined text as one in the notebook."""
    text = notebook.text
    span = notebook.span(finding.span)
    line, column = text.position(span.start)
    end_line, end_column = text.position(span.end)
    fix = finding.fix
    if fix is not None:
        edits = [notebook.edit(edit) for edit in fix.edits]
        known = tuple(edit for edit in edits if edit is not None)
        whole = len(known) == len(edits)
        # What cannot be made in a notebook is shown, and holds its group.
        fix = Fix(fix.title, fix.safety if whole else "manual", known if whole else (), fix.group)
    return msgspec.structs.replace(
        finding,
        span=span,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        message=f"{finding.message} (cell {notebook.cell(finding.span.start).number})",
        fix=fix,
    )


def _cells(text: Text | _Plain) -> Iterable[_Cell]:
    entries = jsonc.entries(text.text)
    by_path = {entry.path: entry for entry in entries}
    if not _is_python(by_path):
        return
    children: dict[tuple[str | int, ...], list[Entry]] = {}
    for entry in entries:
        if entry.kind == "scalar" and isinstance(entry.value, str):
            children.setdefault(entry.path[:-1], []).append(entry)
    number = 0
    for entry in entries:
        path = entry.path
        if not path or path[-1] != "cell_type":
            continue
        number += 1
        base = path[:-1]
        if entry.value != "code" or base[:1] not in (("cells",), ("worksheets",)):
            continue
        for name in ("source", "input"):
            held = by_path.get((*base, name))
            if held is None:
                continue
            listed = held.kind == "sequence"
            strings = children.get(held.path, []) if listed else [held]
            pieces = [
                _Piece(text.data, item.span) for item in strings if isinstance(item.value, str)
            ]
            if pieces:
                yield _Cell(number, pieces, listed=listed)
            break


def _is_python(by_path: dict[tuple[str | int, ...], Entry]) -> bool:
    """Does the notebook say that its language is Python, or say nothing?"""
    for path in (("metadata", "language_info", "name"), ("metadata", "kernelspec", "language")):
        entry = by_path.get(path)
        if entry is not None and isinstance(entry.value, str):
            return "python" in entry.value.lower()
    return True


def _parses(data: bytes) -> str | None:
    try:
        ast.parse(data.decode())
    except SyntaxError as error:
        return f"{error.msg}, line {error.lineno}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or error.__class__.__name__
    return None


def _blank(data: bytes) -> bytes:
    return re.sub(rb"[^\n]", b" ", data)


def _statement(length: int) -> bytes:
    """A statement that does nothing, of a length."""
    return b"pass".ljust(length) if length >= 4 else b"0".ljust(length)


def _outside(cell: _Cell, start: int, end: int) -> bool:
    """Do the lines that an edit touches hold nothing that was blanked?"""
    first = cell.text.rfind(b"\n", 0, start) + 1
    last = cell.text.find(b"\n", end)
    last = len(cell.text) if last < 0 else last
    return cell.text[first:last] == cell.python[first:last]
