"""What a report comes down to: counts and one verdict."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from hpushim.model import FileResult, Report
from hpushim.report import lines

#: Codes that say that training stays on the CPU: nothing stops, and nothing is gained.
_ON_CPU = frozenset({"HPU503"})
Verdict = Literal["clean", "ready", "handled", "needs-you", "incomplete"]


class Summary(msgspec.Struct, frozen=True):
    """Counts over all files. ``pending`` findings have a fix that was not applied.

    ``unknown`` are those of severity ``unknown`` and those on a matrix row of that status.
    """

    files: int
    changed: int
    unchanged: int
    skipped: int
    failed: int
    findings: int
    errors: int
    warnings: int
    infos: int
    applied: int
    pending_safe: int
    pending_unsafe: int
    manual: int
    unknown: int
    lines_added: int
    lines_removed: int
    codes: dict[str, int]
    verdict: Verdict
    sentence: str


def summarise(report: Report) -> Summary:
    """Counts and verdict of ``report``."""
    status: Counter[str] = Counter(file.status for file in report.files)
    findings = [finding for file in report.files for finding in file.findings]
    severity = Counter(finding.severity for finding in findings)
    open_ones = [finding for finding in findings if not finding.applied]
    pending_safe = sum(f.fix is not None and f.safety == "safe" for f in open_ones)
    pending_unsafe = sum(f.fix is not None and f.safety == "unsafe" for f in open_ones)
    manual = sum(f.safety == "manual" and f.severity != "info" for f in open_ones)
    blocking = sum(f.safety == "manual" and f.severity == "error" for f in open_ones)
    open_words = sum(f.severity == "unknown" for f in open_ones)
    applied = len(findings) - len(open_ones)
    added, removed = diff_size(report.files)
    # Binary, generated and ignored files are skipped for good reason; an unreadable one leaves the verdict open.
    verdict, sentence = _verdict(
        findings=len(findings),
        applied=applied,
        pending=pending_safe + pending_unsafe,
        manual=manual,
        blocking=blocking,
        unknown=open_words,
        on_cpu=sum(f.code in _ON_CPU for f in open_ones),
        failed=status["failed"],
    )
    return Summary(
        files=len(report.files),
        changed=status["changed"],
        unchanged=status["unchanged"],
        skipped=status["skipped"],
        failed=status["failed"],
        findings=len(findings),
        errors=severity["error"],
        warnings=severity["warning"],
        infos=severity["info"],
        applied=applied,
        pending_safe=pending_safe,
        pending_unsafe=pending_unsafe,
        manual=manual,
        unknown=_unknown_rows(report) + severity["unknown"],
        lines_added=added,
        lines_removed=removed,
        codes=dict(sorted(Counter(f.code for f in findings).items())),
        verdict=verdict,
        sentence=sentence,
    )


def diff_size(files: tuple[FileResult, ...]) -> tuple[int, int]:
    """Lines added and removed over all changed files."""
    added = removed = 0
    for file in files:
        if file.before is None or file.after is None or file.before == file.after:
            continue
        before, after = (lines.split(data.decode("latin-1")) for data in (file.before, file.after))
        for tag, i1, i2, j1, j2 in lines.steps(before, after):
            if tag != "equal":
                removed += i2 - i1
                added += j2 - j1
    return added, removed


def _verdict(
    *,
    findings: int,
    applied: int,
    pending: int,
    manual: int,
    blocking: int,
    unknown: int,
    on_cpu: int,
    failed: int,
) -> tuple[Verdict, str]:
    if failed:
        return (
            "incomplete",
            f"{_count(failed, 'file')} could not be judged; see the reasons above.",
        )
    if not findings:
        return "clean", "Nothing in these files is specific to CUDA."
    handled = f"{applied + pending} of {findings} findings are handled by rewrites."
    if blocking:
        return (
            "needs-you",
            f"{_count(blocking, 'place')} will stop on Gaudi and {_need(blocking)} you; "
            f"{manual - blocking} more to look at, {handled}",
        )
    if on_cpu:
        return (
            "needs-you",
            f"Training would run on the CPU: nothing puts it on Gaudi; {_count(manual, 'place')} to look at, {handled}",
        )
    if unknown:
        return (
            "needs-you",
            f"{_count(unknown, 'place')} {_need(unknown)} you: what becomes of {'it' if unknown == 1 else 'them'} on Gaudi is not known; "
            f"{manual - unknown} more to look at, {handled}",
        )
    if pending:
        return (
            "ready",
            f"{pending} of {findings} findings have a rewrite waiting; {_count(manual, 'place')} to look at by hand.",
        )
    return (
        "handled",
        f"{applied} of {findings} findings were rewritten; {_count(manual, 'place')} to look at by hand, none known to stop on Gaudi.",
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _need(number: int) -> str:
    return "needs" if number == 1 else "need"


def _unknown_rows(report: Report) -> int:
    """Findings whose matrix row says that nobody has established what Gaudi does."""
    return sum(
        f.row in report.unknown and f.severity != "unknown"
        for file in report.files
        for f in file.findings
    )
