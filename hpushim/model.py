"""The plain data that flows from the engine to the report: no behaviour, no I/O.

Offsets are bytes of the file's *canonical text* (decoded, without byte order mark, encoded as UTF-8,
newlines as they are in the file). Lines and columns are 1-based; columns count characters.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA_VERSION = 1

#: ``unknown``: nobody has established what becomes of it on Gaudi.
Severity = Literal["error", "warning", "info", "unknown"]
Safety = Literal["safe", "unsafe", "manual"]
Status = Literal["changed", "unchanged", "skipped", "failed"]
Generation = Literal["gaudi1", "gaudi2", "gaudi3"]
Mode = Literal["portable", "eager", "compile", "lazy"]
Style = Literal["native", "dual"]


class Target(msgspec.Struct, frozen=True):
    """What the code is written for."""

    gaudi: Generation = "gaudi2"
    stack: str = "1.24"
    mode: Mode = "portable"
    style: Style = "native"


class Span(msgspec.Struct, frozen=True, order=True):
    """A half-open range of bytes in the canonical text."""

    start: int
    end: int


class Edit(msgspec.Struct, frozen=True):
    """Replace ``old``, which must stand at ``span``, by ``new``. An empty span inserts."""

    span: Span
    old: str
    new: str


class Fix(msgspec.Struct, frozen=True):
    """Edits that are applied together or not at all.

    Fixes of one file with the same non-empty ``group`` stand or fall together as well, whichever
    rule they come from (a check and its literal, an import and its uses).
    """

    title: str
    safety: Safety
    edits: tuple[Edit, ...]
    group: str = ""


class Finding(msgspec.Struct, frozen=True):
    """One place where the code meets a fact about Gaudi."""

    code: str
    name: str
    severity: Severity
    safety: Safety
    message: str
    span: Span
    line: int
    column: int
    end_line: int
    end_column: int
    row: str | None = None
    fix: Fix | None = None
    applied: bool = False


class FileResult(msgspec.Struct, frozen=True):
    """What happened to one file. ``reason`` is set when it was skipped or failed."""

    path: str
    status: Status
    reason: str | None = None
    findings: tuple[Finding, ...] = ()
    before: bytes | None = None
    after: bytes | None = None


class Report(msgspec.Struct, frozen=True):
    """One run over a project. ``unknown`` are the rows named in it for which nobody knows what Gaudi does."""

    tool: str
    target: Target
    files: tuple[FileResult, ...]
    root: str = "."
    schema_version: int = SCHEMA_VERSION
    unknown: frozenset[str] = frozenset()
