"""Words of a file that are known by a part of them: ``register_forward_hook`` by ``register_``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpushim.engine.python.module import Module
from hpushim.pycode.words import words_in


def calls_like(module: Module, pattern: re.Pattern[str], *parts: str) -> Iterator[ast.Call]:
    """The calls whose word matches ``pattern`` as a whole; each such word holds one of ``parts``."""
    words = {word for part in parts for word in words_with(module, part)}
    for word in sorted(words):
        if pattern.fullmatch(word):
            yield from module.index.calls(word)


def words_with(module: Module, part: str) -> set[str]:
    """Every word of the file that holds ``part``."""
    return set(words_in(module.data).having(part))
