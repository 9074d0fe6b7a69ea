"""Which lines of a file changed, found in time that grows with the file and no faster."""

from __future__ import annotations

from collections.abc import Sequence

#: ``("replace", 3, 4, 3, 5)``: the old lines 3 to 4 became the new lines 3 to 5, counted from 0, the ends left out.
Step = tuple[str, int, int, int, int]
#: Old times new lines that are left to difflib, whose time grows with their product and more.
_SMALL = 10_000
#: How far to look for the place where two texts are the same again.
_AHEAD = 64
#: Characters of a line that says nothing, such as `)` or `else:`.
_EMPTY = 5


def split(text: str) -> list[str]:
    """The lines with their line feeds, and nothing but line feeds ends one."""
    parts = [f"{part}\n" for part in text.split("\n")]
    last = parts.pop()[:-1]
    return [*parts, last] if last else parts


def steps(old: Sequence[str], new: Sequence[str]) -> list[Step]:
    """The way from the old lines to the new: ``equal``, ``replace``, ``delete`` and ``insert``, in order."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    end_old, end_new = len(old), len(new)
    while min(end_old, end_new) > first and old[end_old - 1] == new[end_new - 1]:
        end_old, end_new = end_old - 1, end_new - 1
    found: list[Step] = []
    if first:
        found.append(("equal", 0, first, 0, first))
    if (end_old - first) * (end_new - first) <= _SMALL:
        found += _exactly(old, new, first, end_old, first, end_new)
    else:
        found += _quickly(old, new, first, end_old, end_new)
    if end_old < len(old):
        found.append(("equal", end_old, len(old), end_new, len(new)))
    return found


def _exactly(
    old: Sequence[str], new: Sequence[str], i: int, end_old: int, j: int, end_new: int
) -> list[Step]:
    if i == end_old or j == end_new:
        tag = "insert" if j < end_new else "delete"
        return [(tag, i, end_old, j, end_new)] if i < end_old or j < end_new else []
    import difflib

    matcher = difflib.SequenceMatcher(None, old[i:end_old], new[j:end_new], autojunk=False)
    return [(tag, i + a, i + b, j + c, j + d) for tag, a, b, c, d in matcher.get_opcodes()]


def _quickly(
    old: Sequence[str], new: Sequence[str], first: int, end_old: int, end_new: int
) -> list[Step]:
    """Side by side; where they part, on to the nearest place where they meet again."""
    found: list[Step] = []
    i = j = first
    while i < end_old and j < end_new:
        start_old, start_new = i, j
        while i < end_old and j < end_new and old[i] == new[j]:
            i, j = i + 1, j + 1
        if i > start_old:
            found.append(("equal", start_old, i, start_new, j))
        start_old, start_new = i, j
        while i < end_old and j < end_new and old[i] != new[j]:
            a, b = _near(old, new, i, j) or _meeting(old[i : i + _AHEAD], new[j : j + _AHEAD])
            i, j = min(i + a, end_old), min(j + b, end_new)
        found += _between(old, new, start_old, i, start_new, j)
    found += _exactly(old, new, i, end_old, j, end_new)
    return found


def _between(
    old: Sequence[str], new: Sequence[str], i: int, end_old: int, j: int, end_new: int
) -> list[Step]:
    if (end_old - i) * (end_new - j) <= _AHEAD * _AHEAD:
        return _exactly(old, new, i, end_old, j, end_new)
    return [("replace", i, end_old, j, end_new)]


#: Lines to pass over on each side, the fewest first.
_FEW = sorted(((a, b) for a in range(5) for b in range(5) if a + b), key=lambda pair: (sum(pair), abs(pair[0] - pair[1])))  # fmt: skip


def _near(old: Sequence[str], new: Sequence[str], i: int, j: int) -> tuple[int, int] | None:
    """How many lines to pass over on each side, where that is few and a line that says something follows."""
    for a, b in _FEW:
        if i + a < len(old) and j + b < len(new) and (line := old[i + a]) == new[j + b]:
            if len(line.strip()) > _EMPTY:
                return a, b
            after = i + a + 1
            if after < len(old) and old[after : after + 2] == new[j + b + 1 : j + b + 3]:
                return a, b
    return None


def _meeting(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """The same, further on."""
    places: dict[str, int] = {}
    for place, line in enumerate(new):
        places.setdefault(line, place)
    best, sure = (len(old), len(new)), False
    for a, line in enumerate(old):
        b = places.get(line)
        if b is None:
            continue
        # Three lines in a row are a meeting; one or two may be blank ones anywhere.
        again = old[a + 1 : a + 3] == new[b + 1 : b + 3]
        if (not again, a + b) < (not sure, sum(best)):
            best, sure = (a, b), again
    return best
