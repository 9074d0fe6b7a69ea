"""The report as SARIF 2.1.0, for code scanning: a rule for each code with its page, fingerprints, and fixes.

A fix replaces whole lines: those of the hunks of the file's proposed change that the finding's edits lie in. A rewrite that has none, for another
one of the same file takes its place, says so in its properties. Where a file's rewrites must be
made together, `hpushim migrate` makes them; the fix says so.
"""

from __future__ import annotations

import urllib.parse
from typing import Any

import msgspec

from hpushim import showing
from hpushim.model import FileResult, Page, Report
from hpushim.report import words
from hpushim.report.assessment import Item, assess
from hpushim.report.fingerprints import fingerprints
from hpushim.report.hunks import Hunk, Hunks
from hpushim.report.json import dumps

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_NO_PAGE = Page()
_LEVELS = {"error": "error", "warning": "warning", "unknown": "warning", "note": "note"}


def render_sarif(report: Report) -> str:
    """One run of the tool."""
    made = assess(report)
    codes = {item.finding.code: item for item in made.items}
    index = {code: place for place, code in enumerate(sorted(codes))}
    items = iter(made.items)
    results = []
    for file in report.files:
        hunks = Hunks(file)
        for mark in fingerprints(file):
            item = next(items)
            results.append(_result(item, mark, file, hunks, index[item.finding.code]))
    run = {
        "tool": {
            "driver": {
                "name": "hpushim",
                "semanticVersion": report.tool.removeprefix("hpushim ") or "0",
                "rules": [
                    _rule(codes[code], report.pages.get(code, _NO_PAGE), report.target.style)
                    for code in sorted(codes)
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": results,
        "invocations": [
            {
                "executionSuccessful": made.summary.verdict != "incomplete",
                "toolExecutionNotifications": [
                    {
                        "level": "error" if file.status == "failed" else "note",
                        "message": {"text": showing.one_line(file.reason)},
                        "locations": [
                            {"physicalLocation": {"artifactLocation": _artifact(file.path)}}
                        ],
                    }
                    for file in report.files
                    if file.reason
                ],
            }
        ],
        "properties": {
            "verdict": made.summary.verdict,
            "sentence": made.summary.sentence,
            "matrix": report.matrix,
            "target": msgspec.to_builtins(report.target),
        },
    }
    if report.target.style == "agnostic":  # kept apart from a run for Gaudi
        run["automationDetails"] = {"id": "hpushim/agnostic/"}
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(item: Item, page: Page, style: str) -> dict[str, Any]:
    finding = item.finding
    return {
        "id": finding.code,
        "name": "".join(part.capitalize() for part in finding.name.split("-")),
        "shortDescription": {"text": finding.name.replace("-", " ")},
        "fullDescription": {"text": page.what or finding.name},
        "help": {"text": page.what or finding.name, "markdown": page.text or finding.name},
        "defaultConfiguration": {"level": _LEVELS[page.severity or finding.severity]},
        "properties": {"tags": [style if style == "agnostic" else "gaudi", item.area]},
    }


_ELSEWHERE = (
    "no fix of its own: `hpushim migrate` makes it together with other rewrites of the file"
)


def _result(
    item: Item, fingerprint: str, file: FileResult, hunks: Hunks, place: int
) -> dict[str, Any]:
    finding = item.finding
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": max(finding.end_line, finding.line),
        "endColumn": max(finding.end_column, finding.column)
        if finding.end_line <= finding.line
        else finding.end_column,
    }
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": place,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [
            {"physicalLocation": {"artifactLocation": _artifact(file.path), "region": region}}
        ],
        "partialFingerprints": {"hpushim/v1": fingerprint},
        "properties": {
            "trouble": item.trouble,
            "handling": item.handling,
            "effort": item.effort,
            "safety": finding.safety,
            "row": finding.row,
            "doubt": words.doubt(item),
        },
    }
    if item.handling in ("safe", "unsafe"):
        changed = hunks.of_fix(finding)
        if changed:
            result["fixes"] = [_fix(item, file.path, changed)]
        else:
            result["properties"]["fix"] = _ELSEWHERE
    return result


def _fix(item: Item, path: str, hunks: tuple[Hunk, ...]) -> dict[str, Any]:
    sure = "" if item.handling == "safe" else "; may be wrong, review it"
    replaced = [
        {"deletedRegion": hunk.region, "insertedContent": {"text": "".join(hunk.new)}}
        for hunk in hunks
    ]
    return {
        "description": {"text": f"What `hpushim migrate` makes of these lines{sure}"},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": replaced}],
    }


def _artifact(path: str) -> dict[str, str]:
    return {"uri": urllib.parse.quote(path, errors="backslashreplace"), "uriBaseId": "%SRCROOT%"}
