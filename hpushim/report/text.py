"""The report for people: findings by file, then counts and the verdict."""

from __future__ import annotations

import io
from collections.abc import Iterator

from hpushim.model import FileResult, Finding, Report
from hpushim.report.summary import Summary, summarise

_STYLE = {"error": "bold red", "warning": "yellow", "info": "cyan"}
Line = list[tuple[str, str]]


def render_text(report: Report, *, concise: bool = False, color: bool = False) -> str:
    """Findings one a line (with the source line unless ``concise``), then the summary.

    ``[*]`` marks a finding with a safe fix, ``[?]`` one that needs ``--unsafe``; applied ones say so.
    """
    lines = list(_lines(report, concise))
    if not color:
        return "".join("".join(text for text, _ in line) + "\n" for line in lines)
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text.assemble(*line))
    return out.getvalue()


def _lines(report: Report, concise: bool) -> Iterator[Line]:
    for file in report.files:
        if file.status in ("failed", "skipped") and file.reason:
            style = "bold red" if file.status == "failed" else "dim"
            yield [(file.path, "bold"), (f": {file.status}: ", style), (file.reason, "")]
        source = None if concise or file.before is None else _source_lines(file)
        for finding in file.findings:
            yield _headline(file.path, finding)
            if source is not None and finding.line <= len(source):
                yield from _excerpt(source[finding.line - 1], finding)
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
        (f" {mark}{finding.message}", ""),
    ]


def _source_lines(file: FileResult) -> list[str]:
    assert file.before is not None
    return file.before.decode("utf-8-sig", errors="replace").splitlines()


def _excerpt(line: str, finding: Finding) -> Iterator[Line]:
    shown = line.expandtabs(4).rstrip()
    stripped = shown.lstrip()
    start = len(line[: finding.column - 1].expandtabs(4)) - (len(shown) - len(stripped))
    width = finding.end_column - finding.column if finding.end_line == finding.line else 0
    if width <= 0:
        width = len(stripped) - start
    yield [(f"    {stripped}", "dim")]
    yield [("    " + " " * max(start, 0) + "^" * max(width, 1), "green")]


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
