"""The words of a text, and whether it holds a piece of text: asked for hundreds of times of each file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache

_WORD = re.compile(r"[A-Za-z0-9_]+")
_BLANKED = bytes(c if c < 128 and (chr(c).isalnum() or c == 95) else 32 for c in range(256))


class Words:
    """The words of a text: runs of ASCII letters, digits and underscores."""

    def __init__(self, data: bytes) -> None:
        self.words = frozenset(data.translate(_BLANKED).decode("ascii").split())
        self._data = data
        self._known: dict[str, bool] = {}

    @cached_property
    def _each_once(self) -> str:
        return " ".join(self.words)

    def holds(self, text: str) -> bool:
        """Does ``text`` stand in the data, as words or as parts of them?"""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._search(text)
        return known

    def held(self, texts: Iterable[str]) -> frozenset[str]:
        """Those of some texts that stand in the data."""
        return frozenset(filter(self.holds, texts))

    def _search(self, text: str) -> bool:
        whole, part = _needed(text)
        if part == text:
            return text in self.words or text in self._each_once
        # There are few words beside all that is written.
        return (
            whole <= self.words
            and (not part or part in self._each_once)
            and text.encode() in self._data
        )


@cache
def _needed(text: str) -> tuple[frozenset[str], str]:
    """The words that a text cannot be without, and the longest piece at its ends, which may be a part of one."""
    whole: set[str] = set()
    part = ""
    for run in _WORD.finditer(text):
        if run.start() and run.end() < len(text):
            whole.add(run[0])
        else:
            part = max(part, run[0], key=len)
    return frozenset(whole), part


@lru_cache(maxsize=2)
def words_in(data: bytes) -> Words:
    """The words of ``data``; the last texts are kept, for one file is asked at several places in turn."""
    return Words(data)
