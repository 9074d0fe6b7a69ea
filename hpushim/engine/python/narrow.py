"""The edits between two versions of a piece of code, as narrow as its tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpushim.model import Edit, Span

_TOKEN = re.compile(r"\w+|[^\S\r\n]+|\r\n|.", re.DOTALL)
#: Where so many tokens differ, the whole stretch is one edit.
_MOST = 600


def narrowed(start: int, old: str, new: str) -> list[Edit]:
    """The edits that turn ``old``, which is at the byte ``start``, into ``new``."""
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    first = 0
    least = min(len(before), len(after))
    while first < least and before[first] == after[first]:
        first += 1
    last = 0
    while last < least - first and before[-1 - last] == after[-1 - last]:
        last += 1
    middle = before[first : len(before) - last], after[first : len(after) - last]
    at = start + _bytes(before[:first])
    if not middle[0] and not middle[1]:
        return []
    if not middle[1]:
        moved = _to_the_left(before, first, len(middle[0]))
        at -= _bytes(before[first - moved : first])
        return [_edit(at, before[first - moved : first - moved + len(middle[0])], [])]
    if not all(middle) or max(map(len, middle)) > _MOST:
        return [_edit(at, middle[0], middle[1])]
    import difflib

    edits: list[Edit] = []
    matcher = difflib.SequenceMatcher(None, *middle, autojunk=False)
    done = 0
    for tag, i, j, k, m in _joined(matcher.get_opcodes()):
        if tag != "equal":
            at += _bytes(middle[0][done:i])
            edits.append(_edit(at, middle[0][i:j], middle[1][k:m]))
            at += _bytes(middle[0][i:j])
            done = j
    return edits


def _to_the_left(tokens: list[str], first: int, size: int) -> int:
    """How far to the left the same may be taken out so that it begins where a statement does: of ``a.b; a.c`` not ``b; a.``, but ``a.b; ``."""
    moved = 0
    while moved < first and tokens[first - moved - 1] == tokens[first - moved - 1 + size]:
        moved += 1
        if (
            moved == first
            or tokens[first - moved - 1].isspace()
            or tokens[first - moved - 1] == ";"
        ):
            return moved
    return 0


Opcode = tuple[str, int, int, int, int]


def _joined(opcodes: Sequence[Opcode]) -> list[Opcode]:
    """Differences with nothing but a token or two of the same between them are one."""
    found: list[Opcode] = []
    for tag, i, j, k, m in opcodes:
        if tag == "equal" and found and j - i < 3 and j != opcodes[-1][2]:
            tag = "replace"
        if tag != "equal" and found and found[-1][0] != "equal":
            _, i, _, k, _ = found.pop()
            tag = "replace"
        found.append((tag, i, j, k, m))
    return found


def _edit(at: int, old: list[str], new: list[str]) -> Edit:
    gone = "".join(old)
    return Edit(Span(at, at + len(gone.encode())), gone, "".join(new))


def _bytes(tokens: list[str]) -> int:
    return len("".join(tokens).encode())
