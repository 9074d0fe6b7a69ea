"""The report as JSON: the stable form that other programs read (``schema_version``)."""

from __future__ import annotations

from typing import Any

import msgspec

from hpushim import showing
from hpushim.model import Report
from hpushim.report.assessment import summarise

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
    return dumps(as_data(report))


def dumps(value: Any) -> str:
    """Plain data as indented JSON that any reader takes and any terminal can show, ending in a newline."""
    try:
        raw = msgspec.json.encode(value)
    except UnicodeEncodeError:  # halves of characters, from names that are not UTF-8
        raw = msgspec.json.encode(_whole(msgspec.to_builtins(value)))
    return showing.json(msgspec.json.format(raw, indent=2).decode()) + "\n"


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return value
