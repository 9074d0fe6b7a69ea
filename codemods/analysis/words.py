"""Words of a file that are known by a part of them: ``register_forward_hook`` by ``register_``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast

    from hpushim.engine.python.module import Module


def calls_like(module: Module, pattern: re.Pattern[str], *parts: str) -> Iterator[ast.Call]:
    """The calls whose word matches ``pattern`` as a whole; each such word holds one of ``parts``."""
    words = {word for part in parts for word in words_with(module, part)}
    for word in sorted(words):
        if pattern.fullmatch(word):
            yield from module.index.calls(word)


def words_with(module: Module, part: str) -> set[str]:
    """Every word of the file that holds ``part``."""
    data, written = module.data, part.encode()
    found: set[str] = set()
    at = data.find(written)
    while at >= 0:
        start = at
        while start and _is_wordlike(data[start - 1]):
            start -= 1
        end = at + len(written)
        while end < len(data) and _is_wordlike(data[end]):
            end += 1
        found.add(data[start:end].decode())
        at = data.find(written, end)
    return found


def _is_wordlike(byte: int) -> bool:
    return byte >= 128 or byte == 95 or chr(byte).isalnum()
