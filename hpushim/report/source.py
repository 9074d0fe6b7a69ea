"""The lines of a file that findings are in: what is shown of one costs the same however long it is."""

from __future__ import annotations

import re
from itertools import accumulate

import msgspec

from hpushim import showing
from hpushim.model import FileResult, Finding

#: Characters of a source line that are shown, and of them how many before the finding at most.
_WIDTH = 160
_BEFORE = 100
_END_OF_LINE = re.compile(r"\r\n|\r|\n")
_INDENT = re.compile(r"[ \t\f]*")


class Excerpt(msgspec.Struct, frozen=True):
    """A line without its indentation, as a terminal can show it: what is before the finding, it, and what follows."""

    before: str
    marked: str
    after: str

    @property
    def text(self) -> str:
        return self.before + self.marked + self.after


class Lines:
    """The lines of one file as it was."""

    def __init__(self, file: FileResult) -> None:
        self.text = (file.before or b"").decode("utf-8-sig", errors="replace")
        if "\r" in self.text:
            ends = [found.span() for found in _END_OF_LINE.finditer(self.text)]
            self._starts = [0, *(end for _, end in ends)]
            self._ends = [*(start for start, _ in ends), len(self.text)]
        else:
            sizes = [len(line) + 1 for line in self.text.split("\n")]
            self._starts = [0, *accumulate(sizes[:-1])]
            self._ends = [start - 1 for start in (*self._starts[1:], len(self.text) + 1)]
        self._indents: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> str:
        """The line of this number, from 1, as it is; empty where there is none."""
        if not 1 <= number <= len(self._starts):
            return ""
        return self.text[self._starts[number - 1] : self._ends[number - 1]]

    def excerpt(self, finding: Finding) -> Excerpt | None:
        """The line of a finding, or the part around it."""
        if not self.text or finding.line > len(self._starts):
            return None
        start, end = self._starts[finding.line - 1], self._ends[finding.line - 1]
        first = self._indents.get(finding.line)
        if first is None:
            indent = _INDENT.match(self.text, start, end)
            first = self._indents[finding.line] = indent.end() if indent else start
        begin = min(start + finding.column - 1, end)
        close = start + finding.end_column - 1 if finding.end_line == finding.line else end
        left = max(min(first, begin), begin - _BEFORE)
        right = min(left + _WIDTH, end)
        close = min(close, right) if close > begin else min(begin, right)
        before = ("…" if left > first else "") + _shown(self.text[left:begin])
        after = _shown(self.text[close:right]).rstrip() + ("…" if right < end else "")
        return Excerpt(before, _shown(self.text[begin:close]), after)


def _shown(text: str) -> str:
    return showing.one_line(text).replace("\t", "    ")
