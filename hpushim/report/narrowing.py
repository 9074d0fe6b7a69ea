"""A report on what is new alone: beside a baseline of known findings, or on the lines that changed since a revision."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from hpushim.errors import HpushimError
from hpushim.model import FileResult, Finding, Report
from hpushim.report import lines
from hpushim.report.fingerprints import fingerprints
from hpushim.report.json import dumps

BASELINE_VERSION = 1
#: Codes, and beginnings of codes, on what Gaudi does with code that names no vendor.
_OF_GAUDI = ("HPU118", "HPU209", "HPU214", "HPU409", "HPU5", "HPU9")


class Known(msgspec.Struct, frozen=True):
    """A finding of a baseline; all but the fingerprint is for people who read the file."""

    fingerprint: str
    path: str
    code: str
    message: str


class Baseline(msgspec.Struct, frozen=True):
    """Findings that somebody has seen and put off."""

    schema_version: int
    tool: str
    findings: tuple[Known, ...] = ()


def baseline_of(report: Report) -> str:
    """Everything that ``report`` holds, as a file to commit; in the order of files, so that it merges well."""
    found = [
        Known(mark, file.path, finding.code, finding.message)
        for file in report.files
        for finding, mark in zip(file.findings, fingerprints(file), strict=True)
    ]
    return dumps(Baseline(BASELINE_VERSION, report.tool, tuple(found)))


def read_baseline(data: bytes, name: str) -> Baseline:
    """The baseline in a file; HpushimError where it is none."""
    try:
        found = msgspec.json.decode(data, type=Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HpushimError(f"{name}: not a baseline ({error}); write one with --write-baseline") from None  # fmt: skip
    if found.schema_version != BASELINE_VERSION:
        raise HpushimError(
            f"{name}: a baseline of version {found.schema_version}, expected {BASELINE_VERSION}; "
            "write it anew with --write-baseline"
        )
    return found


def without(report: Report, baseline: Baseline) -> tuple[Report, int, int]:
    """The report without what the baseline holds, how many that were, and how many of the baseline are gone."""
    known = {item.fingerprint for item in baseline.findings}
    here = {mark for file in report.files for mark in fingerprints(file)}

    def kept(file: FileResult) -> list[Finding]:
        marks = fingerprints(file)
        return [f for f, mark in zip(file.findings, marks, strict=True) if mark not in known]

    return _only(report, kept), len(known & here), len(known - here)


def only_changed(report: Report, past: Mapping[str, bytes]) -> Report:
    """The report on the lines that are not as they were in ``past``; in a file that is not there, on all."""

    def kept(file: FileResult) -> list[Finding]:
        if file.path not in past or file.before is None:
            return list(file.findings)
        new = _new_lines(past[file.path], file.before)
        return [f for f in file.findings if not new.isdisjoint(range(f.line, f.end_line + 1))]

    return _only(report, kept)


def for_every_device(report: Report) -> Report:
    """Only what concerns code for every accelerator: no limits of Gaudi's operators, dtypes and graphs, which the style leaves alone."""

    def kept(file: FileResult) -> list[Finding]:
        return [f for f in file.findings if f.fix is not None or not f.code.startswith(_OF_GAUDI)]

    return _only(report, kept)


def _new_lines(old: bytes, new: bytes) -> set[int]:
    """The numbers, from 1, of lines that are new or other ones; line ends do not count."""
    before, after = (
        lines.split(data.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")) for data in (old, new)
    )  # fmt: skip
    found: set[int] = set()
    for tag, _, _, j1, j2 in lines.steps(before, after):
        if tag != "equal":
            found.update(range(j1 + 1, j2 + 1))
    return found


def _only(report: Report, kept: Callable[[FileResult], list[Finding]]) -> Report:
    """The same report with some findings; what is said of a file that could not be assessed stays."""
    files = []
    for file in report.files:
        findings = file.findings if file.status == "failed" else tuple(kept(file))
        files.append(msgspec.structs.replace(file, findings=findings))
    left_out = sum(map(_found, report.files)) - sum(map(_found, files)) + (report.hidden or 0)
    return msgspec.structs.replace(report, files=tuple(files), hidden=left_out)


def _found(file: FileResult) -> int:
    return len(file.findings)
