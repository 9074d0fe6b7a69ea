"""Which places of a text the rules have spoken of, so that a rule may speak of the rest."""

from __future__ import annotations

from collections.abc import Iterable

from hpushim.model import Finding, Span


class Told:
    """The places that findings tell of, and those that stay as they are on purpose."""

    def __init__(
        self,
        findings: Iterable[Finding],
        kept: Iterable[Span] = (),
        opened: Iterable[Span] = (),
    ) -> None:
        """``kept`` stay as they are, apart from what lies in one of ``opened`` inside them."""
        self._by_line: dict[int, list[Finding]] = {}
        for finding in findings:
            for line in {finding.line, finding.end_line}:
                self._by_line.setdefault(line, []).append(finding)
        self._kept = {**dict.fromkeys(kept, True), **dict.fromkeys(opened, False)}

    def covers(self, span: Span, line: int) -> bool:
        """Is a place, which begins in ``line``, told of, or kept?

        A finding without a fix makes people read its line; one that is rewritten tells of no more than it touches.
        """
        around = [s for s in self._kept if s.start <= span.start and span.end <= s.end]
        if around and self._kept[min(around, key=lambda s: s.end - s.start)]:
            return True
        return any(
            finding.fix is None or (finding.span.start < span.end and span.start < finding.span.end)
            for finding in self._by_line.get(line, ())
        )
