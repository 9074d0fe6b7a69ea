"""The report as JSON: the stable form that other programs read (``schema_version``)."""

from __future__ import annotations

from typing import Any

import msgspec

from hpushim.model import Report
from hpushim.report.summary import summarise

_FINDING_FIELDS = (
    "code",
    "name",
    "severity",
    "safety",
    "message",
    "line",
    "column",
    "end_line",
    "end_column",
    "row",
    "applied",
)


def as_data(report: Report) -> dict[str, Any]:
    """``report`` as plain dictionaries and lists; lines and columns are 1-based, of the file as it was."""
    return {
        "schema_version": report.schema_version,
        "tool": report.tool,
        "target": msgspec.to_builtins(report.target),
        "summary": msgspec.to_builtins(summarise(report)),
        "files": [
            {
                "path": file.path,
                "status": file.status,
                "reason": file.reason,
                "findings": [
                    {name: getattr(finding, name) for name in _FINDING_FIELDS}
                    for finding in file.findings
                ],
            }
            for file in report.files
        ],
    }


def render_json(report: Report) -> str:
    """``report`` as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(as_data(report)), indent=2).decode() + "\n"
