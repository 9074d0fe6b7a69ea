"""The report as Markdown, short enough for a pull-request comment."""

from __future__ import annotations

from hpushim import showing
from hpushim.model import Report
from hpushim.report.assessment import summarise
from hpushim.report.markup import code, prose


def render_markdown(report: Report) -> str:
    """Verdict first, then what needs a person, then counts by code."""
    summary = summarise(report)
    target = report.target
    lines = [
        f"## hpushim: {summary.verdict}",
        "",
        prose(summary.sentence),
        "",
        f"Target `{target.gaudi}`, release {prose(target.stack)}, mode {target.mode}, style {target.style}. "
        f"{summary.files} files, {summary.changed} changed (+{summary.lines_added} −{summary.lines_removed} lines), "
        f"{summary.skipped} skipped, {summary.failed} failed; {summary.unknown} findings with unknown support.",
        "",
    ]
    rows = [
        f"| {code(f'{showing.quoted(file.path)}:{f.line}')} | {f.code} | {f.severity} | {prose(f.message)} |"
        for file in report.files
        for f in file.findings
        if f.safety == "manual" and f.severity != "info" and not f.applied
    ]
    if rows:
        lines += [
            "### By hand",
            "",
            "| place | code | severity | what |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    broken = [
        f"| {code(showing.quoted(file.path))} | {file.status} | {prose(file.reason or '')} |"
        for file in report.files
        if file.status in ("failed", "skipped")
    ]
    if broken:
        lines += ["### Not read", "", "| file | status | reason |", "|---|---|---|", *broken, ""]
    if summary.codes:
        lines += ["### Findings by code", "", "| code | count |", "|---|---:|"]
        lines += [f"| {code} | {count} |" for code, count in summary.codes.items()]
        lines.append("")
    return "\n".join(lines)
