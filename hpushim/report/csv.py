"""The report as CSV for a spreadsheet: one finding a row."""

from __future__ import annotations

import csv
import io

from hpushim import showing
from hpushim.model import Report
from hpushim.report import words
from hpushim.report.assessment import TROUBLES, assess

_HEAD = ("file", "line", "column", "code", "name", "severity", "trouble", "who", "effort", "area", "doubt", "message")  # fmt: skip
#: What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_csv(report: Report) -> str:
    """A head and a row for each finding, in the order of the files."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEAD)
    for item in assess(report).items:
        finding = item.finding
        effort = words.EFFORTS[item.effort] if item.effort else ""
        row = (showing.quoted(item.path), finding.line, finding.column, finding.code, finding.name, item.finding.severity,
               TROUBLES[item.trouble], item.handling, effort, item.area, words.doubt(item), finding.message)  # fmt: skip
        writer.writerow([cell(value) for value in row])
    return out.getvalue()


def cell(value: str | int) -> str | int:
    if isinstance(value, int):
        return value
    text = showing.one_line(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
