"""Which places of a text the rules have spoken of, so that a rule may speak of the rest."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Literal

from hpushim.model import Finding, Span


class Told:
    """The places that findings tell of, and those that stay as they are on purpose."""

    def __init__(
        self,
        findings: Iterable[Finding],
        kept: Iterable[Span] = (),
        opened: Iterable[Span] = (),
    ) -> None:
        """``kept`` stay as they are, apart from what lies in one of ``opened`` inside them; each lies in another or beside it."""
        #: Lines that people read, and those where something is rewritten.
        self._read: set[int] = set()
        #: Lines that are rewritten without a person's word.
        self._changed: set[int] = set()
        rewritten: dict[int, set[Span]] = {}
        for finding in findings:
            for line in {finding.line, finding.end_line}:
                if finding.fix is None:
                    self._read.add(line)
                else:
                    rewritten.setdefault(line, set()).add(finding.span)
            if finding.fix is not None and finding.fix.safety == "safe":
                self._changed.update(range(finding.line, finding.end_line + 1))
        self._rewritten = {line: _Union(spans) for line, spans in rewritten.items()}
        self._kept = _Nested({**dict.fromkeys(kept, True), **dict.fromkeys(opened, False)})

    def covers(self, span: Span, line: int) -> bool:
        """Is a place, which begins in ``line``, told of, or kept?

        A finding without a fix makes people read its line; one that is rewritten tells of no more than it touches.
        """
        return self.said(span, line) != ""

    def said(self, span: Span, line: int) -> Literal["rewritten", "found", "kept", ""]:
        """What is said of a place; nothing where no rule reports it."""
        rewritten = self._rewritten.get(line)
        if rewritten is not None and rewritten.touches(span):
            return "rewritten"
        if line in self._read:
            return "found"
        return "kept" if self._kept.innermost(span) else ""

    @property
    def rewritten(self) -> list[int]:
        """The lines in which something is rewritten without ``--unsafe``, from the top."""
        return sorted(self._changed)


class _Union:
    """Spans joined where they overlap."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for span in sorted(spans):
            if self._ends and span.start < self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], span.end)
            else:
                self._starts.append(span.start)
                self._ends.append(span.end)

    def touches(self, span: Span) -> bool:
        before = bisect_left(self._starts, span.end) - 1
        return before >= 0 and self._ends[before] > span.start


class _Nested:
    """Spans of which each lies in another or beside it, with a value each."""

    def __init__(self, values: Mapping[Span, bool]) -> None:
        self._spans = sorted(values, key=lambda span: (span.start, -span.end))
        self._starts = [span.start for span in self._spans]
        self._values = [values[span] for span in self._spans]
        #: The place of the span around each; -1 where there is none.
        self._around: list[int] = []
        open_: list[int] = []
        for place, span in enumerate(self._spans):
            while open_ and self._spans[open_[-1]].end < span.end:
                open_.pop()
            self._around.append(open_[-1] if open_ else -1)
            open_.append(place)

    def innermost(self, span: Span) -> bool:
        """The value of the smallest span that holds ``span``; False where none does."""
        place = bisect_right(self._starts, span.start) - 1
        while place >= 0 and self._spans[place].end < span.end:
            place = self._around[place]
        return place >= 0 and self._values[place]
