"""Where the lines of a text start."""

from __future__ import annotations

from itertools import accumulate


def starts_of_lines(data: bytes) -> list[int]:
    """The byte offset of every line's first byte, and of the end when a newline ends the text."""
    lines = data.splitlines(keepends=True)  # of bytes: Python's own line ends, unlike those of str
    if lines and not lines[-1].endswith((b"\n", b"\r")):
        lines.pop()
    return list(accumulate(map(len, lines), initial=0))
