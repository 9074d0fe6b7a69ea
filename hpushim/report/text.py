"""The report for people: findings by file, then counts and the verdict."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from hpushim import showing
from hpushim.model import FileResult, Finding, Report
from hpushim.report.summary import Summary, summarise

_STYLE = {"error": "bold red", "warning": "yellow", "info": "cyan", "unknown": "magenta"}
#: Characters of a source line that are shown, and of them how many before the finding at most.
_WIDTH = 160
_BEFORE = 100
#: Characters of a message that are shown.
_LONGEST = 2000
_END_OF_LINE = re.compile(r"\r\n|\r|\n")
_INDENT = re.compile(r"[ \t\f]*")
Line = list[tuple[str, str]]


def render_text(report: Report, *, concise: bool = False, color: bool = False) -> str:
    """Findings one a line (with the source line unless ``concise``), then the summary.

    ``[*]`` marks a finding with a safe fix, ``[?]`` one that needs ``--unsafe``; applied ones say so.
    """
    lines = _lines(report, concise)
    if not color:
        plain = ("".join(text for text, _ in line) for line in lines)
        return "".join(f"{showing.one_line(line)}\n" for line in plain)
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text.assemble(*((showing.one_line(text), style) for text, style in line)))
    return out.getvalue()


def _lines(report: Report, concise: bool) -> Iterator[Line]:
    for file in report.files:
        path = showing.quoted(file.path)
        if file.status in ("failed", "skipped") and file.reason:
            style = "bold red" if file.status == "failed" else "dim"
            yield [(path, "bold"), (f": {file.status}: ", style), (_clipped(file.reason), "")]
        source = None if concise or file.before is None or not file.findings else _Source(file)
        for finding in file.findings:
            yield _headline(path, finding)
            if source is not None:
                yield from source.excerpt(finding)
    if not concise:
        yield [("", "")]
    yield from _summary(report, summarise(report))


def _headline(path: str, finding: Finding) -> Line:
    mark = ""
    if finding.applied:
        mark = "rewritten: "
    elif finding.fix is not None:
        mark = "[*] " if finding.safety == "safe" else "[?] "
    return [
        (f"{path}:{finding.line}:{finding.column}: ", "bold"),
        (finding.code, _STYLE[finding.severity]),
        (f" {mark}{_clipped(finding.message)}", ""),
    ]


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class _Source:
    """The lines of a file; what is shown of one costs the same however long it is."""

    def __init__(self, file: FileResult) -> None:
        assert file.before is not None
        self.text = file.before.decode("utf-8-sig", errors="replace")
        ends = [(found.start(), found.end()) for found in _END_OF_LINE.finditer(self.text)]
        self.starts = [0, *(end for _, end in ends)]
        self.ends = [*(start for start, _ in ends), len(self.text)]
        self.indents: dict[int, int] = {}

    def excerpt(self, finding: Finding) -> Iterator[Line]:
        """The line of a finding, or the part around it, with carets below."""
        if finding.line > len(self.starts):
            return
        start, end = self.starts[finding.line - 1], self.ends[finding.line - 1]
        first = self.indents.get(finding.line)
        if first is None:
            indent = _INDENT.match(self.text, start, end)
            first = self.indents[finding.line] = indent.end() if indent else start
        begin = min(start + finding.column - 1, end)
        close = start + finding.end_column - 1 if finding.end_line == finding.line else end
        left = max(min(first, begin), begin - _BEFORE)
        right = min(left + _WIDTH, end)
        close = min(close, right) if close > begin else right
        before = _fit(self.text[left:begin], "…" if left > first else "")
        marked = _fit(self.text[begin:close], before)
        shown = _fit(self.text[close:right], marked).rstrip()
        width = len(marked.rstrip()) - len(before)
        yield [(f"    {shown}{'…' if right < end else ''}", "dim")]
        yield [(f"    {' ' * len(before)}{'^' * max(width, 1)}", "green")]


def _fit(text: str, before: str) -> str:
    """``text`` after what stands ``before`` it, as a terminal can show it, tabs as blanks."""
    return (before + showing.one_line(text)).expandtabs(4)


def _summary(report: Report, summary: Summary) -> Iterator[Line]:
    target = report.target
    yield [
        (
            f"Target: {target.gaudi}, release {target.stack}, mode {target.mode}, style {target.style}",
            "dim",
        )
    ]
    yield [
        (
            f"{summary.files} files: {summary.changed} changed, {summary.unchanged} unchanged, "
            f"{summary.skipped} skipped, {summary.failed} failed "
            f"(+{summary.lines_added} -{summary.lines_removed} lines)",
            "",
        )
    ]
    yield [
        (
            f"{summary.findings} findings: {summary.errors} errors, {summary.warnings} warnings, {summary.infos} notes; "
            f"{summary.applied} rewritten, {summary.pending_safe} safe and {summary.pending_unsafe} unsafe rewrites waiting, "
            f"{summary.manual} by hand, {summary.unknown} unknown",
            "",
        )
    ]
    yield [("Verdict: ", "bold"), (f"{summary.verdict}. {summary.sentence}", "")]
