"""The words of a text, and which pieces of text it holds: requested hundreds of times of each file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache
from typing import Literal

#: What a word is wanted as.
Use = Literal["name", "attribute", "call", "keyword", "string"]
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
        self._used: dict[str, bool] = {}

    @cached_property
    def _each_once(self) -> str:
        return " ".join(self.words)

    def holds(self, text: str) -> bool:
        """Is ``text`` in the data, as words or as parts of them?"""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._search(text)
        return known

    def uses(self, written: str) -> bool:
        """Is a word there as code uses it: ``.word`` behind a dot or in an import, ``word(`` in a call, ``word=`` as a keyword?

        A text in a comment has it without these signs.
        """
        known = self._used.get(written)
        if known is None:
            if written[0] == ".":
                behind_a_dot = rb"\.[\s\\]*%s\b" % written[1:].encode()
                known = written[1:] in self._imported.words or re.search(behind_a_dot, self.data) is not None  # fmt: skip
            else:
                use: Use = "call" if written[-1] == "(" else "keyword"
                known = self.may_be(written[:-1].encode(), use, 0, len(self.data))
            self._used[written] = known
        return known

    def matches(self, pattern: str) -> bool:
        """Does a regular expression match somewhere in the data?"""
        return re.search(pattern.encode(), self.data) is not None

    def may_be(self, word: bytes, use: Use, start: int, end: int, at: int | None = None) -> bool:
        """May a word be what it is wanted as, at or behind a place in a part of the text? So far as the signs beside it say."""
        data = self.data
        if use == "string":
            return data.find(b'"', start, end) >= 0 or data.find(b"'", start, end) >= 0
        find, sought, size = self.blanked.find, b" %b " % word, len(word)
        if at is None:
            at = find(sought, start, end + 2)
        while 0 <= at < end:
            if use == "attribute":
                if _is_behind_a_dot(data, start, at):
                    return True
            else:
                behind = at + size
                passed = _TO_CALL if use == "call" else _BETWEEN
                while behind < end and data[behind] in passed:
                    behind += 1
                if data[behind : behind + 1] in (b"(" if use == "call" else b"=", b"#"):
                    return True
            at = find(sought, at + size, end + 2)
        return False

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


_BETWEEN = frozenset(b" \t\r\n\f\\")
#: What is called may be in parentheses of its own: ``(f)(x)``.
_TO_CALL = _BETWEEN | {ord(")")}


def _is_behind_a_dot(data: bytes, start: int, at: int) -> bool:
    """Is a dot before a place in a unit, or may it be before a comment there?"""
    before = at - 1
    while before >= start and data[before] in _BETWEEN:
        before -= 1
    if before < start or before == at - 1:
        return before >= start and data[before] == _DOT
    line = data.rfind(b"\n", start, before) + 1 or start
    return data[before] == _DOT or data.find(b"#", line, before + 1) >= 0


_DOT = ord(".")


class Texts:
    """Pieces of text that are looked for together in many files.

    Most are words or parts of words, and most words are in many files: what a word holds is found once.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        #: Those that are more than a part of a word, by the part that a word has to hold, or else a word: with all that they need.
        self._others: defaultdict[str, list[tuple[str, frozenset[str], bytes]]] = defaultdict(list)
        for text in self._texts:
            whole, part = _needed(text)
            if not text or part != text:
                first = part or min(whole, default="")
                self._others[first].append((text, whole, text.encode()))
        self._parts = {_needed(text)[1] for text in self._texts} - {""}
        #: Words that hold none of the parts, and what the others hold.
        self._barren: set[str] = set()
        self._holding: dict[str, list[str]] = {}
        self._last: Words | None = None
        self._held: frozenset[str] = frozenset()

    def held(self, text: Words) -> frozenset[str]:
        """Those that are in a text; those in the last text are kept, because several callers need them."""
        if text is not self._last:
            self._last, self._held = text, self._found(text)
        return self._held

    def _found(self, text: Words) -> frozenset[str]:
        if len(self._barren) + len(self._holding) > _MOST:
            self._barren.clear()
            self._holding.clear()
        left = text.words - self._barren
        if new := left.difference(self._holding):
            self._look_at(new)
        found = set().union(*filter(None, map(self._holding.get, left)))
        others = self._others
        for first in ("", *(others.keys() & (found | text.words))):
            for other, whole, written in others.get(first, ()):
                if whole <= text.words and written in text.data:
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
    """The words of ``data``; the last texts are kept, for several places read one file in turn."""
    return Words(data)
