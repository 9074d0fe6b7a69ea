"""Which rule reports a place: the claims of the rules on it, and what they have said of it."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from hpushim.engine.rules.rule import Claim, Strength
from hpushim.model import Finding, Span

if TYPE_CHECKING:
    from hpushim.engine.base.text import Text
    from hpushim.engine.python.module import Module


Verdict = Literal["report", "unsafe", "manual", "drop"]


class Claims:
    """All claims on one file, each with the rule that makes it; ``file`` is the place of the whole file."""

    def __init__(self, claims: Iterable[tuple[Any, Span, Strength]], file: Span) -> None:
        self._file = file
        by_span: dict[Span, list[tuple[Any, Strength]]] = {}
        for rule, span, strength in claims:
            by_span.setdefault(span, []).append((rule, strength))
        self._spans = sorted(by_span, key=lambda span: (span.start, -span.end))
        self._starts = [span.start for span in self._spans]
        self._claims = [by_span[span] for span in self._spans]
        #: The place of the span around each; -1 where there is none.
        self._outer: list[int] = []
        open_: list[int] = []
        for place, span in enumerate(self._spans):
            while open_ and self._spans[open_[-1]].end < span.end:
                open_.pop()
            self._outer.append(open_[-1] if open_ else -1)
            open_.append(place)

    @classmethod
    def of(cls, module: Module, claims: Iterable[tuple[Any, Claim]]) -> Claims:
        """The claims on nodes of a module."""
        spans = ((rule, _span(module, claim.node), claim.strength) for rule, claim in claims)
        held = ((rule, span, strength) for rule, span, strength in spans if span is not None)
        return cls(held, Span(0, len(module.data)))

    def _around(self, span: Span) -> Iterator[tuple[Span, Any, Strength]]:
        """The claims that hold a place, the innermost first; of one place, those that open it."""
        place = bisect_right(self._starts, span.start) - 1
        while place >= 0:
            if self._spans[place].end >= span.end:
                for rule, strength in sorted(self._claims[place], key=lambda claim: claim[1]):
                    yield self._spans[place], rule, strength
            place = self._outer[place]

    def assess(self, span: Span, rule: object, strength: Strength) -> Verdict:
        """What becomes of a rule's finding, and of its fix."""
        verdict: Verdict = "report"
        for place, other, claimed in self._around(span):
            if claimed == Strength.FIRM:
                return "drop"
            if other is rule or verdict != "report":
                continue
            if claimed == Strength.OPEN:
                verdict = "unsafe"
            elif claimed >= strength:
                return "drop"
            elif place == self._file:
                verdict = "manual"
        return verdict

    def holds(self, span: Span) -> bool:
        """Does the innermost claim around a place keep it from other rules?"""
        return next((claimed > Strength.OPEN for _, _, claimed in self._around(span)), False)


def _span(module: Module, node: ast.AST) -> Span | None:
    """The place of a claimed node, its decorators included; None for parts of the tree that have no place."""
    if node is module.tree:
        return Span(0, len(module.data))
    if not hasattr(node, "lineno") or node in module.index.lost:
        return None
    return Span(module.start(node), module.span(node).end)


class Said:
    """What all rules have said of a text so far, for those that finish."""

    def __init__(
        self, text: Text, findings: Sequence[Finding], claims: Claims | None = None
    ) -> None:
        self._text = text
        self._findings = findings
        self._claims = claims or Claims((), Span(0, 0))

    def of(self, span: Span) -> Literal["rewritten", "found", "kept", ""]:
        """What is said of a place; "" where no rule reports or claims it.

        A finding without a fix makes people read its lines; one with a fix reports no more than it touches.
        """
        line = self._text.position(span.start)[0]
        read, rewritten = self._lines
        if line in rewritten and rewritten[line].touches(span):
            return "rewritten"
        if line in read:
            return "found"
        return "kept" if self._claims.holds(span) else ""

    @property
    def rewritten(self) -> list[int]:
        """The lines in which something is rewritten without ``--unsafe``, from the top."""
        lines: set[int] = set()
        for finding in self._findings:
            if finding.fix is not None and finding.fix.safety == "safe":
                lines.update(range(finding.line, finding.end_line + 1))
        return sorted(lines)

    @cached_property
    def _lines(self) -> tuple[set[int], dict[int, _Union]]:
        """The lines that people read, and what is rewritten in each line."""
        read: set[int] = set()
        rewritten: dict[int, set[Span]] = {}
        for finding in self._findings:
            for line in {finding.line, finding.end_line}:
                if finding.fix is None:
                    read.add(line)
                else:
                    rewritten.setdefault(line, set()).add(finding.span)
        return read, {line: _Union(spans) for line, spans in rewritten.items()}


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
