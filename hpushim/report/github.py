"""The report as workflow commands, which GitHub Actions shows beside the lines of a pull request."""

from __future__ import annotations

from hpushim import showing
from hpushim.model import Report
from hpushim.report import words
from hpushim.report.assessment import Item, assess

_LEVELS = {"error": "error", "warning": "warning", "unknown": "warning", "note": "notice"}


def render_github(report: Report) -> str:
    """One command a finding, then the verdict."""
    made = assess(report)
    verdict = _data(f"{made.summary.verdict}. {made.summary.sentence}")
    return "".join(f"{line}\n" for line in (*map(_command, made.items), f"::notice title=hpushim::{verdict}"))  # fmt: skip


def _command(item: Item) -> str:
    finding = item.finding
    places = {"file": item.path, "line": str(finding.line)}
    if finding.end_line > finding.line:
        places["endLine"] = str(finding.end_line)
    else:  # columns mean something on one line only
        places["col"] = str(finding.column)
        places["endColumn"] = str(max(finding.end_column, finding.column))
    places["title"] = f"hpushim {finding.code}"
    properties = ",".join(f"{name}={_property(value)}" for name, value in places.items())
    message = _data(f"{finding.message} {words.tags(item)}".rstrip())
    return f"::{_LEVELS[item.finding.severity]} {properties}::{message}"


def _data(text: str) -> str:
    return showing.one_line(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
