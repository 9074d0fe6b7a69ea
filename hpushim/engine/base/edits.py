"""Edits of text: made, put in order, followed from one version of a text to the next."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from hpushim.model import Edit, Span


def splice(data: bytes, edits: Iterable[Edit]) -> bytes:
    """``data`` with ``edits`` made; they are ordered and do not overlap."""
    parts: list[bytes] = []
    at = 0
    for edit in edits:
        parts += (data[at : edit.span.start], edit.new.encode())
        at = edit.span.end
    parts.append(data[at:])
    return b"".join(parts)


def overlap(a: Edit, b: Edit) -> bool:
    """Do two different edits want the same bytes? Two insertions at one place do not."""
    if a.span.start == a.span.end:
        return b.span.start < a.span.start < b.span.end
    if b.span.start == b.span.end:
        return a.span.start < b.span.start < a.span.end
    return a.span.start < b.span.end and b.span.start < a.span.end


def growth(edit: Edit) -> int:
    """How many bytes longer an edit makes the text."""
    return len(edit.new.encode()) - (edit.span.end - edit.span.start)


class Places:
    """Offsets of a changed text in terms of the text before, and the other way."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self._edits = edits
        self._ends = [edit.span.end for edit in edits]
        self._shifts = [0, *accumulate(map(growth, edits))]
        #: Where each edit's new text starts.
        self._new = [
            edit.span.start + shift for edit, shift in zip(edits, self._shifts, strict=False)
        ]

    def before(self, offset: int) -> int:
        """Where the byte at ``offset`` was; bytes that are new are where they were put."""
        index = bisect.bisect_right(self._new, offset) - 1
        if index < 0:
            return offset
        edit = self._edits[index]
        inside = offset - self._new[index]
        length = len(edit.new.encode())
        if inside < length:
            return min(edit.span.start + inside, edit.span.end)
        return edit.span.end + inside - length

    def after(self, offset: int) -> int:
        """Where the byte at ``offset`` of the text before, which no edit touches, is now."""
        return offset + self._shifts[bisect.bisect_right(self._ends, offset)]


def composed(data: bytes, steps: Iterable[Sequence[Edit]]) -> list[Edit]:
    """The edits of ``data`` that do at once what several steps do one after the other, each in terms of the last one's text."""
    pieces: list[Span | bytes] = [Span(0, len(data))]
    for edits in steps:
        pieces = _stepped(pieces, edits)
    found: list[Edit] = []
    at, new = 0, b""
    for piece in (*pieces, Span(len(data), len(data))):
        if isinstance(piece, bytes):
            new += piece
            continue
        if new or piece.start > at:
            found.append(Edit(Span(at, piece.start), data[at : piece.start].decode(), new.decode()))
        at, new = piece.end, b""
    return found


def _stepped(pieces: list[Span | bytes], edits: Sequence[Edit]) -> list[Span | bytes]:
    """The pieces of a text, old ones by their place and new ones as they are, after some edits."""
    waiting = pieces[::-1]
    made: list[Span | bytes] = []
    at = 0

    def take(length: int) -> Iterator[Span | bytes]:
        while length > 0 and waiting:
            piece = waiting.pop()
            size = len(piece) if isinstance(piece, bytes) else piece.end - piece.start
            if size > length:
                head, rest = _split(piece, length)
                waiting.append(rest)
                piece, size = head, length
            length -= size
            yield piece

    for edit in edits:
        made += take(edit.span.start - at)
        for _ in take(edit.span.end - edit.span.start):
            pass
        made.append(edit.new.encode())
        at = edit.span.end
    return [*made, *reversed(waiting)]


def _split(piece: Span | bytes, at: int) -> tuple[Span | bytes, Span | bytes]:
    if isinstance(piece, bytes):
        return piece[:at], piece[at:]
    return Span(piece.start, piece.start + at), Span(piece.start + at, piece.end)
