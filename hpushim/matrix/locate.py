"""Where in a TOML text something is; needed only when an error is reported."""

from __future__ import annotations

import re


def row_line(text: str, index: int, field: str = "") -> int:
    """Line (1-based) of the ``index``-th ``[[row]]``, or of ``field`` inside it; 1 when there is none."""
    seen = -1
    start = 1
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("[[row]]"):
            if seen == index:
                break
            seen += 1
            start = number
        elif seen == index:
            if stripped.startswith("["):
                break
            if field and re.match(rf'"?{re.escape(field)}"?\s*=', stripped):
                return number
    return start


def table_line(text: str, table: str, key: str = "") -> int:
    """Line (1-based) of the first ``[table…]`` or ``[[table…]]``, or of ``key`` in it; 1 when there is none."""
    inside = not table
    start = 1
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            inside = stripped.strip("[] ").split(".")[0] == table
            if inside and start == 1:
                start = number
        elif inside and key and re.match(rf'"?{re.escape(key)}"?\s*=', stripped):
            return number
    return start
