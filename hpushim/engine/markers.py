"""Which markers a text holds.

The rules have some hundreds of markers, and most texts hold few of them. A marker's longest word rules most of them
out by the words of the text alone, each taken once: a sixth of the bytes. Only the others are looked for in the text.
"""

from __future__ import annotations

import re
from functools import cache

#: Every byte that is no part of a word becomes a blank.
_BLANKED = bytes(c if c < 128 and (chr(c).isalnum() or c == 95) else 32 for c in range(256))
_WORD = re.compile(rb"[A-Za-z0-9_]+")


class Markers:
    """The markers of one text: asked for one by one, each looked for once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._known: dict[bytes, bool] = {}
        self._words = b""

    def __contains__(self, marker: bytes) -> bool:
        """Whether the marker is somewhere in the text."""
        known = self._known.get(marker)
        if known is None:
            known = self._known[marker] = self._look(marker)
        return known

    def _look(self, marker: bytes) -> bool:
        word = _longest_word(marker)
        if not word:
            return marker in self._data
        if not self._words:
            self._words = b" ".join(set(self._data.translate(_BLANKED).split())) or b" "
        # A run of word characters lies within one word: where the marker is one, that is the answer.
        return word in self._words and (word == marker or marker in self._data)


@cache
def _longest_word(marker: bytes) -> bytes:
    return max(_WORD.findall(marker), key=len, default=b"")
