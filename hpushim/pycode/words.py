"""The words of a text, and which pieces of text it holds: requested hundreds of times of each file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache

_WORD = re.compile(r"[A-Za-z0-9_]+")
#: So many words are kept from file to file.
_MOST = 100_000
#: The names in imports, also over several lines: all that follows ``import``, and the module after ``from``.
_IMPORTS = re.compile(
    rb"from[ \t]+[\w.]+|import[ \t]*(?:\((?:[^()#]|#[^\n]*\n)*\)|(?:[^\n\\]|\\\r?\n|\\)*)"
)
_BLANKED = bytes(c if c < 128 and (chr(c).isalnum() or c == 95) else 32 for c in range(256))


class Words:
    """The words of a text: runs of ASCII letters, digits and underscores."""

    def __init__(self, data: bytes) -> None:
        #: The text with a space in place of all else, and at both ends: a word between two spaces is a whole one.
        self.blanked = b" %b " % data.translate(_BLANKED)
        self.words = frozenset(self.blanked.decode("ascii").split())
        self.data = data
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

    def uses(self, word: str) -> bool:
        """Does a word stand behind a dot or in an import? A text in a comment says it without either."""
        behind_a_dot = rb"\.[\s\\]*%s\b" % word.encode()
        return word in self._imported.words or re.search(behind_a_dot, self.data) is not None

    @cached_property
    def _imported(self) -> Words:
        return Words(b" ".join(_IMPORTS.findall(self.data)))

    def having(self, part: str) -> list[str]:
        """Every word that ``part``, of letters, digits and underscores, is a part of."""
        return [word for word in self.words if part in word] if self.holds(part) else []

    def _search(self, text: str) -> bool:
        whole, part = _needed(text)
        if part == text:
            return text in self.words or text in self._each_once
        # There are few words beside all that is written.
        return (
            whole <= self.words
            and (not part or part in self._each_once)
            and text.encode() in self.data
        )


class Texts:
    """Pieces of text that are looked for together in many files.

    Most are words or parts of words, and most words are in many files: what a word holds is found once.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        #: Those that are more than a part of a word: the words they cannot be without, and a part that one has to hold.
        self._others = [
            (text, *_needed(text), text.encode())
            for text in self._texts
            if not text or _needed(text)[1] != text
        ]
        self._parts = {_needed(text)[1] for text in self._texts} - {""}
        #: Words that hold none of the parts, and what the others hold.
        self._barren: set[str] = set()
        self._holding: dict[str, list[str]] = {}

    def held(self, text: Words) -> frozenset[str]:
        """Those that are in a text."""
        if len(self._barren) + len(self._holding) > _MOST:
            self._barren.clear()
            self._holding.clear()
        left = text.words - self._barren
        if new := left.difference(self._holding):
            self._look_at(new)
        found: set[str] = set()
        for word in left:
            found.update(self._holding.get(word, ()))
        for other, whole, part, written in self._others:
            if (not part or part in found) and whole <= text.words and written in text.data:
                found.add(other)
        return self._texts & found

    def _look_at(self, words: frozenset[str]) -> None:
        together = f" {' '.join(words)} "
        held: defaultdict[str, list[str]] = defaultdict(list)
        for part in self._parts:
            at = together.find(part)
            while at >= 0:
                end = together.find(" ", at)
                held[together[together.rfind(" ", 0, at) + 1 : end]].append(part)
                at = together.find(part, end)
        self._holding.update(held)
        self._barren.update(words.difference(held))


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
