"""A text and its places: what a parsed Python module and any other document have in common."""

from __future__ import annotations

import bisect
import re
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from hpushim.model import Span, Target
from hpushim.pycode.lines import starts_of_lines
from hpushim.pycode.words import words_in

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

#: What ends a line for Python; ``str.splitlines`` knows more and is wrong here.
LINE_END = re.compile(rb"\r\n|\r|\n")
#: The bytes that begin no character.
_CONTINUATION = bytes(range(0x80, 0xC0))


_BLANK = bytes(c if c in b"\r\n" else 32 for c in range(256))
_BLANK_BUT_NEWLINES = bytes(c if c == 10 else 32 for c in range(256))


def blank(data: bytes, *, returns: bool = True) -> bytes:
    """Spaces in place of everything but newlines and, where ``returns``, carriage returns."""
    return data.translate(_BLANK if returns else _BLANK_BUT_NEWLINES)


#: So much of a text is counted at a time, and no more than it is counted again for one place.
_STEP = 4096


class Offsets:
    """Byte offsets in the UTF-8 of a text for its character indices."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        #: The bytes before every whole step, as far as they were needed.
        self._before = [0]
        #: The last place that was requested, and its offset: most ask from the top down.
        self._last = 0, 0

    def __call__(self, index: int) -> int:
        if self._ascii:
            return index
        text, before, step = self._text, self._before, index // _STEP
        last, offset = self._last
        if not 0 <= index - last <= _STEP:
            while len(before) <= step:
                start = (len(before) - 1) * _STEP
                before.append(before[-1] + len(text[start : start + _STEP].encode()))
            last, offset = step * _STEP, before[step]
        offset += len(text[last:index].encode())
        self._last = index, offset
        return offset

    def span(self, start: int, end: int) -> Span:
        return Span(self(start), self(end))


class _Characters:
    """How many characters begin before each byte offset of a text in UTF-8."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._ascii = data.isascii()
        self._before = [0]

    def between(self, start: int, end: int) -> int:
        """How many begin between two offsets."""
        if self._ascii:
            return end - start
        if 0 <= end - start <= _STEP:
            return self._begun(start, end)
        return self(end) - self(start)

    def __call__(self, offset: int) -> int:
        before, step = self._before, offset // _STEP
        while len(before) <= step:
            start = (len(before) - 1) * _STEP
            before.append(before[-1] + self._begun(start, start + _STEP))
        return before[step] + self._begun(step * _STEP, offset)

    def _begun(self, start: int, end: int) -> int:
        return len(self._data[start:end].translate(None, _CONTINUATION))


class _Lines:
    """The line around each byte offset, its number and its start, of a text that is not taken apart for a few places."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        #: Counting is quick, so that a long text needs no more steps than a short one.
        self._step = max(_STEP, len(data) // 64)
        #: The line at the beginning of every whole step, as far as they were needed.
        self._at = [(1, 0)]

    def __call__(self, offset: int) -> tuple[int, int]:
        step = offset // self._step
        while len(self._at) <= step:
            self._at.append(self._after(len(self._at) - 1, len(self._at) * self._step))
        return self._after(step, offset)

    def _after(self, step: int, end: int) -> tuple[int, int]:
        line, start = self._at[step]
        last = self._data.rfind(b"\n", step * self._step, end)
        if last < 0:
            return line, start
        return line + self._data.count(b"\n", step * self._step, end), last + 1


class Project(msgspec.Struct, frozen=True):
    """What is known about the whole project before its files are read one by one."""

    #: Names of methods (``def`` below class level) anywhere in the project's Python files.
    methods: frozenset[str] = frozenset()
    #: Top-level names of the project's own modules and packages (``utils``, ``model``).
    modules: frozenset[str] = frozenset()
    #: The versions of packages that the project requests: ``("lightning", "<2.5")``, once for each file.
    pins: tuple[tuple[str, str], ...] = ()
    #: The options (``--lr``) that the project's Python files declare or mention beside such declarations.
    options: frozenset[str] = frozenset()
    #: What the project's files import from each other: the last word of the module, and the name. Where a file imports all,
    #: what it mentions of that.
    imported: frozenset[tuple[str, str]] = frozenset()
    #: What rules have collected from all Python files (``Wants.facts``), by the name of the fact.
    collected: tuple[tuple[str, frozenset[str]], ...] = ()
    #: The project's Python files, as they are shown.
    files: frozenset[str] = frozenset()
    #: Of the texts that rules request (``Wants.project``), those that are in some file; None where nobody has looked.
    mentions: frozenset[str] | None = None
    #: Of the modules, those that Python takes before an installed package of the same name: files, and folders with ``__init__.py``.
    shadowing: frozenset[str] = frozenset()
    #: Of facts that spread: the files that have it, those that import one of them and those that one of them imports. Of each pin,
    #: ``torch==2.1``, the files of the installs that read it.
    spread: tuple[tuple[str, frozenset[str]], ...] = ()

    #: The files that import another framework and not the one that the rules are about, neither themselves nor through others.
    foreign: frozenset[str] = frozenset()

    #: What rules define for several files: each file with the name, and the module that it imports it from; "" for one that defines it.
    homes: tuple[tuple[tuple[str, str], str], ...] = ()
    #: Of files that only follow another one, which stays, that one.
    leads: tuple[tuple[str, str], ...] = ()

    def home(self, path: str, name: str) -> str | None:
        """The module that gives a file what rules define for several; "" for one that defines it, None for one that helps itself."""
        return dict(self.homes).get((path, name))

    def names(self, fact: str) -> frozenset[str]:
        """The names that were collected for a fact."""
        return dict(self.collected).get(fact, frozenset())

    def reaches(self, fact: str, path: str) -> bool:
        """Does a fact that spreads reach a file, as it is shown?"""
        return path in dict(self.spread).get(fact, frozenset())

    def requests(self, name: str, versions: str, path: str) -> bool:
        """Does an install that runs or reads a file request a package in these versions, one of the :attr:`pins`?"""
        files = dict(self.spread).get(f"{name}{versions}")
        return files is None or path in files


ALONE = Project()


class Text:
    """A text with byte offsets, lines and the target it is assessed for.

    ``data`` is the canonical text as UTF-8 bytes; every :class:`Span` is an offset into it.
    """

    def __init__(
        self,
        text: str,
        path: str,
        target: Target,
        matrix: Matrix,
        project: Project = ALONE,
        data: bytes | None = None,
    ) -> None:
        self.text = text
        #: The text in UTF-8, which who has it already may give.
        self.data = text.encode() if data is None else data
        self.path = path
        self.target = target
        self.matrix = matrix
        self.project = project
        self._matched: dict[re.Pattern[bytes], bool] = {}

    @cached_property
    def line_starts(self) -> list[int]:
        """The byte offset of every line's first byte, and of the end when a newline ends the text."""
        return starts_of_lines(self.data)

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based line and character column of a byte offset."""
        if self._lines is None or "line_starts" in self.__dict__:
            line = bisect.bisect_right(self.line_starts, offset)
            start = self.line_starts[line - 1]
        else:
            line, start = self._lines(offset)
        return line, self._characters.between(start, offset) + 1

    @cached_property
    def _lines(self) -> _Lines | None:
        """None where lines end in several ways."""
        return None if b"\r" in self.data else _Lines(self.data)

    @cached_property
    def _characters(self) -> _Characters:
        """So that a column is found without a look at its whole line."""
        return _Characters(self.data)

    @property
    def read(self) -> bytes:
        """What rules read of the text."""
        return self.data

    def line_span(self, line: int) -> Span:
        """A 1-based line with its newline."""
        starts = self.line_starts
        return Span(starts[line - 1], starts[line] if line < len(starts) else len(self.data))

    def holds(self, text: str) -> bool:
        """Is ``text`` anywhere in it? Looked for once, for all nodes."""
        return words_in(self.data).holds(text)

    def matches(self, pattern: re.Pattern[bytes]) -> bool:
        """Does ``pattern`` match anywhere in it? Looked for once."""
        known = self._matched.get(pattern)
        if known is None:
            known = self._matched[pattern] = pattern.search(self.data) is not None
        return known

    @cached_property
    def newline(self) -> str:
        """The file's newline, for inserted lines; the first one found wins."""
        found = LINE_END.search(self.data)
        return found.group().decode() if found else "\n"

    def text_at(self, span: Span) -> str:
        """The text at a span, as written."""
        return self.data[span.start : span.end].decode()
