"""The report as GitLab's code quality artifact."""

from __future__ import annotations

from hpushim import showing
from hpushim.model import Report
from hpushim.report import words
from hpushim.report.assessment import Item, assess
from hpushim.report.fingerprints import fingerprints
from hpushim.report.json import dumps


def render_gitlab(report: Report) -> str:
    """A list of issues; ``fingerprint`` is by what GitLab separates new ones from old ones."""
    items = iter(assess(report).items)
    marks = ((file, mark) for file in report.files for mark in fingerprints(file))
    found = []
    for (file, mark), item in zip(marks, items, strict=True):
        message = f"{item.finding.message} {words.tags(item)}".rstrip()
        lines = {"begin": item.finding.line, "end": max(item.finding.end_line, item.finding.line)}
        found.append(
            {
                "description": showing.one_line(message),
                "check_name": f"{item.finding.code} {item.finding.name}",
                "fingerprint": mark,
                "severity": _severity(item),
                "location": {"path": file.path, "lines": lines},
            }
        )
    return dumps(found)


def _severity(item: Item) -> str:
    """One of GitLab's five."""
    if item.handling in ("rewritten", "note"):
        return "info"
    if item.finding.severity == "error":
        return "blocker" if item.handling == "by-hand" else "critical"
    return "minor" if item.finding.severity == "note" else "major"
