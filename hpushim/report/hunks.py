"""What would become of the lines of a finding: the hunk of its file's change that it lies in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from hpushim.model import FileResult, Finding
from hpushim.report import lines


class Hunk(msgspec.Struct, frozen=True):
    """Lines of a file, from ``first`` (1-based) on, and what is there instead; either may be none. Both with their line ends."""

    first: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def region(self) -> dict[str, int]:
        """The old lines as a region of SARIF: from the start of the first to the start of the line after the last."""
        after = self.first + len(self.old)
        if self.old and not self.old[-1].endswith("\n"):
            end = {"endLine": after - 1, "endColumn": len(self.old[-1]) + 1}
        else:
            end = {"endLine": after, "endColumn": 1}
        return {"startLine": self.first, "startColumn": 1, **end}

    @property
    def imports(self) -> bool:
        """Does it add an import?"""
        added = (line.lstrip() for line in self.new if line not in self.old)
        return any(line.startswith(("import ", "from ")) for line in added)

    def at(self, finding: Finding) -> Hunk:
        """The part for the lines of the finding alone, where each old line has its new one."""
        start = max(finding.line - self.first, 0)
        end = finding.end_line + 1 - self.first
        if len(self.old) != len(self.new) or start >= end:
            return self
        return Hunk(self.first + start, self.old[start:end], self.new[start:end])


class Hunks:
    """The change of one file, as it was made or is proposed; none where there is no change."""

    def __init__(self, file: FileResult) -> None:
        after = file.after if file.after is not None else file.proposed
        self._hunks: list[Hunk] = []
        self._text = b""  # that the edits of findings count in
        if file.before is not None and after is not None and file.before != after:
            old, new = (
                lines.split(data.decode("utf-8-sig", "replace")) for data in (file.before, after)
            )
            self._text = file.before.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
            for tag, i1, i2, j1, j2 in lines.steps(old, new):
                if tag != "equal":
                    self._hunks.append(Hunk(i1 + 1, tuple(old[i1:i2]), tuple(new[j1:j2])))
        self._starts = [hunk.first for hunk in self._hunks]

    def of_fix(self, finding: Finding) -> tuple[Hunk, ...]:
        """The hunks that the edits of a finding are in, which may be far from its own line; where they are not known, :meth:`of`.

        Imports are settled for the file as a whole: what is found at one and changes no line of its own is shown where one is added.
        """
        found: list[Hunk] = []
        for edit in finding.fix.edits if finding.fix is not None else ():
            old = edit.old.encode("utf-8", "surrogateescape")
            if self._text[edit.span.start : edit.span.start + len(old)] != old:
                found = []  # the edits of a notebook count in its code
                break
            first = self._text.count(b"\n", 0, edit.span.start) + 1
            last = first + old.count(b"\n")
            found += [hunk for hunk in self._around(first, last) if hunk not in found]
        if found:
            return tuple(found)
        nearest = self.of(finding)
        if nearest is not None:
            return (nearest,)
        lines = self._text.splitlines()[finding.line - 1 : finding.line]
        if lines and lines[0].lstrip().startswith((b"import ", b"from ")):
            return tuple(hunk for hunk in self._hunks if hunk.imports)[:1]
        return ()

    def _around(self, first: int, last: int) -> Iterator[Hunk]:
        """The hunks that change one of these lines, or insert before, between or right behind them."""
        for hunk in self._hunks:
            end = last + (not hunk.old)
            if hunk.first <= end and hunk.first + max(len(hunk.old), 1) > first:
                yield hunk

    def of(self, finding: Finding) -> Hunk | None:
        """The hunk that changes a line of the finding, else one that inserts lines right behind it."""
        last = bisect_right(self._starts, finding.end_line + 1)
        behind = None
        for hunk in self._hunks[max(last - 2, 0) : last]:
            if not hunk.old:
                behind = hunk if hunk.first > finding.line else behind
            elif hunk.first <= finding.end_line and hunk.first + len(hunk.old) > finding.line:
                return hunk
        return behind
