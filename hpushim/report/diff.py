"""A change of one file as a unified diff."""

from __future__ import annotations

import difflib


def unified(path: str, before: bytes, after: bytes) -> str:
    """A unified diff with ``a/`` and ``b/`` paths; empty when nothing differs.

    Bytes that are not UTF-8 are shown as Latin-1, which keeps every line distinct.
    """
    if before == after:
        return ""
    try:
        old, new = before.decode(), after.decode()
    except UnicodeDecodeError:
        old, new = before.decode("latin-1"), after.decode("latin-1")
    lines = difflib.unified_diff(
        _lines(old), _lines(new), f"a/{path}", f"b/{path}", lineterm="\n", n=3
    )
    out: list[str] = []
    for line in lines:
        out.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(out)


def _lines(text: str) -> list[str]:
    """Lines as diff tools see them: ended by a line feed alone, so that a carriage return is shown."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
