"""A change of one file as a unified diff."""

from __future__ import annotations

from collections.abc import Iterator

from hpushim import showing
from hpushim.report import lines

_CONTEXT = 3


def unified(path: str, before: bytes, after: bytes) -> str:
    """A unified diff with ``a/`` and ``b/`` paths, quoted as git quotes them; empty when nothing differs.

    Bytes that are not UTF-8 are kept as Python's surrogate escapes, so that encoding the text gives them back.
    """
    if before == after:
        return ""
    old = lines.split(before.decode("utf-8", "surrogateescape"))
    new = lines.split(after.decode("utf-8", "surrogateescape"))
    out = [f"--- {_header('a', path)}\n", f"+++ {_header('b', path)}\n"]
    for hunk in _hunks(lines.steps(old, new)):
        out.append(f"@@ -{_range(hunk[0][1], hunk[-1][2])} +{_range(hunk[0][3], hunk[-1][4])} @@\n")
        for tag, i1, i2, j1, j2 in hunk:
            if tag == "equal":
                out += (f" {line}" for line in old[i1:i2])
                continue
            out += (f"-{line}" for line in old[i1:i2])
            out += (f"+{line}" for line in new[j1:j2])
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in out
    )


def _header(side: str, path: str) -> str:
    name = showing.quoted(path)
    if name.startswith('"'):
        return f'"{side}/{name[1:]}'
    # A tab ends a name with blanks for programs that would end it at the first one.
    return f"{side}/{name}\t" if " " in name else f"{side}/{name}"


def _hunks(steps: list[lines.Step]) -> Iterator[list[lines.Step]]:
    """Changes with the lines around them; those that are near each other together."""
    hunk: list[lines.Step] = []
    for number, (tag, i1, i2, j1, j2) in enumerate(steps):
        if tag != "equal":
            hunk.append((tag, i1, i2, j1, j2))
            continue
        last = number == len(steps) - 1
        if hunk and (last or i2 - i1 > 2 * _CONTEXT):
            length = min(_CONTEXT, i2 - i1)
            hunk.append(("equal", i1, i1 + length, j1, j1 + length))
            yield hunk
            hunk = []
        if last:
            return
        start = max(i1, i2 - _CONTEXT) if not hunk else i1
        hunk.append(("equal", start, i2, j2 - (i2 - start), j2))
    if hunk:
        yield hunk


def _range(start: int, end: int) -> str:
    """``3`` for one line, ``3,2`` for two from the third on; of none, the line before them."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + (end > start)},{end - start}"
