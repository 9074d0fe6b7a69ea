"""The report as JSON: the stable form that other programs read (``schema_version``), and its schema."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hpushim import showing
from hpushim.model import (
    Basis,
    Dependency,
    Effect,
    Effort,
    Kernels,
    Program,
    Report,
    Safety,
    Severity,
    Stage,
    Status,
)
from hpushim.model import Target as _Target
from hpushim.report.assessment import Handling, Item, Summary, Trouble, assess
from hpushim.report.fingerprints import fingerprints


class Entry(msgspec.Struct, frozen=True):
    """A finding; lines and columns are 1-based, of the file as it was. ``effort`` is null where a person has nothing to do."""

    code: str
    name: str
    severity: Severity
    safety: Safety
    message: str
    line: int
    column: int
    end_line: int
    end_column: int
    row: str | None
    applied: bool
    trouble: Trouble
    handling: Handling
    effort: Effort | None
    effect: Effect | None
    area: str
    fingerprint: str


class File(msgspec.Struct, frozen=True):
    """A file with what was found in it."""

    path: str
    status: Status
    reason: str | None
    findings: tuple[Entry, ...]


class Document(msgspec.Struct, frozen=True):
    """The whole report. ``rows`` is what the matrix says of each row that a finding names, ``programs`` those that train, the likeliest first."""

    schema_version: int
    tool: str
    matrix: str
    stage: Stage
    target: _Target
    summary: Summary
    rows: dict[str, Basis]
    kernels: tuple[Kernels, ...]
    dependencies: tuple[Dependency, ...]
    programs: tuple[Program, ...]
    files: tuple[File, ...]


def document(report: Report) -> Document:
    """``report`` in the form of the JSON."""
    made = assess(report)
    items = iter(made.items)
    return Document(
        schema_version=report.schema_version,
        tool=report.tool,
        matrix=report.matrix,
        stage=report.stage,
        target=report.target,
        summary=made.summary,
        rows=report.rows,
        kernels=report.kernels,
        dependencies=report.dependencies,
        programs=report.programs,
        files=tuple(
            File(
                path=file.path,
                status=file.status,
                reason=file.reason,
                findings=tuple(_entry(next(items), mark) for mark in fingerprints(file)),
            )
            for file in report.files
        ),
    )


def _entry(item: Item, fingerprint: str) -> Entry:
    finding = item.finding
    return Entry(
        code=finding.code,
        name=finding.name,
        severity=finding.severity,
        safety=finding.safety,
        message=finding.message,
        line=finding.line,
        column=finding.column,
        end_line=finding.end_line,
        end_column=finding.end_column,
        row=finding.row,
        applied=finding.applied,
        trouble=item.trouble,
        handling=item.handling,
        effort=item.effort,
        effect=item.effect,
        area=item.area,
        fingerprint=fingerprint,
    )


def schema() -> dict[str, Any]:
    """The JSON schema of what :func:`render_json` gives, which ships as ``report.schema.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hpushim report",
        **msgspec.json.schema(Document),
    }


def as_data(report: Report) -> dict[str, Any]:
    """``report`` as plain dictionaries and lists."""
    found: dict[str, Any] = msgspec.to_builtins(document(report))
    return found


def render_json(report: Report) -> str:
    """``report`` as indented JSON."""
    return dumps(document(report))


def dumps(value: Any) -> str:
    """Plain data as indented JSON that any reader takes and any terminal can show, ending in a newline."""
    try:
        raw = msgspec.json.encode(value)
    except UnicodeEncodeError:  # halves of characters, from names that are not UTF-8
        raw = msgspec.json.encode(_whole(msgspec.to_builtins(value)))
    return showing.json(msgspec.json.format(raw, indent=2).decode()) + "\n"


#: Half a character that represents no byte of a name.
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        data = value.encode(
            "utf-8", "backslashreplace" if _HALF.search(value) else "surrogateescape"
        )
        return data.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return value
