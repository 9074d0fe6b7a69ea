"""What a report comes down to, computed once: a verdict, what each place requests from whom, and totals that add up.

Every format draws from here and counts nothing itself. Each finding is in one group of :data:`TROUBLES`, and one of
:data:`HANDLINGS` takes care of it, so both add up to all findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from hpushim.model import AREAS, Basis, Effect, Effort, FileResult, Finding, Report, Severity, Stage
from hpushim.report import lines
from hpushim.report.verdict import Verdict, decide
from hpushim.report.work import Work, distance, pieces, span

Trouble = Literal[
    "unread",
    "stops",
    "kernels",
    "cpu",
    "unknown",
    "numbers",
    "speed",
    "other",
    "unsafe",
    "rewrite",
    "note",
]
Handling = Literal["rewritten", "safe", "unsafe", "by-hand", "note"]
HANDLINGS: tuple[Handling, ...] = get_args(Handling)
EFFORTS: tuple[Effort, ...] = get_args(Effort)
#: The groups of findings in the order in which they are reported, each with its heading.
TROUBLES: dict[Trouble, str] = {
    "unread": "Could not be read",
    "stops": "Stops on Gaudi",
    "kernels": "Kernels written for CUDA",
    "cpu": "Stays on the CPU",
    "unknown": "Behaviour on Gaudi unknown",
    "numbers": "Changes numerical results",
    "speed": "Runs slower",
    "other": "Review by hand",
    "unsafe": "Other rewrites by `hpushim migrate --unsafe`",
    "rewrite": "Other rewrites by `hpushim migrate`",
    "note": "For information",
}
#: Of the tool itself: a file or a rewrite of which nothing can be said.
_UNREAD = frozenset({"HPU001", "HPU002", "HPU004", "HPU006"})
#: About files and comments, not about a line of code.
NO_LINE = _UNREAD | {"HPU003", "HPU007"}
_KNOWN = Basis("", "")


class Item(msgspec.Struct, frozen=True):
    """A finding and what was made of it. ``effort`` is None where a person has nothing to do."""

    path: str
    finding: Finding
    trouble: Trouble
    handling: Handling
    effort: Effort | None
    effect: Effect | None
    area: str
    basis: Basis

    @property
    def inferred(self) -> bool:
        """Is what Gaudi does here concluded, not stated by the source? What is unknown is not."""
        return self.basis.confidence == "inferred" and not self.unknown

    @property
    def unknown(self) -> bool:
        """Has nobody established what Gaudi does here?"""
        return self.finding.severity == "unknown" or self.basis.status == "unknown"


class Efforts(msgspec.Struct, frozen=True):
    """Places that need a person, by what they ask. ``none``: Gaudi has no counterpart."""

    minutes: int = 0
    hours: int = 0
    none: int = 0

    @property
    def total(self) -> int:
        return self.minutes + self.hours + self.none


class LineCounts(msgspec.Struct, frozen=True):
    """Lines with a finding, by the one on it that needs most work. The parts add up to ``total``."""

    total: int = 0
    free: int = 0  #: rewritten by `migrate`, or nothing to do
    unsafe: int = 0
    by_hand: int = 0

    @property
    def share(self) -> int:
        """Per cent of the lines that need no manual work, rounded down: 100 means all."""
        return 100 * (self.total - self.by_hand) // self.total if self.total else 100


class Summary(msgspec.Struct, frozen=True):
    """Counts over all files.

    ``findings`` = ``errors + warnings + notes + undetermined`` = ``applied + pending_safe + pending_unsafe + manual + no_action``.
    ``unknown`` are the findings of severity ``unknown`` (``undetermined``) and those on a matrix row of that status, ``inferred`` those
    on a row that was concluded and not stated. ``kernel_files`` are CUDA sources, which no rule reads.
    """

    files: int
    changed: int
    unchanged: int
    skipped: int
    failed: int
    findings: int
    errors: int
    warnings: int
    notes: int
    undetermined: int
    applied: int
    pending_safe: int
    pending_unsafe: int
    manual: int
    no_action: int
    unknown: int
    inferred: int
    lines_added: int
    lines_removed: int
    lines: LineCounts
    effort: Efforts
    troubles: dict[str, int]
    codes: dict[str, int]
    kernel_files: int
    kernel_lines: int
    #: What a person has to do, what decides first, and the minutes for all of it, from and to; without what has no counterpart.
    work: tuple[Work, ...]
    least: int
    most: int
    verdict: Verdict
    sentence: str


class Assessment(msgspec.Struct, frozen=True):
    """A report and all that is said about it. ``groups`` hold every item once, the worst first within a group."""

    report: Report
    summary: Summary
    items: tuple[Item, ...]
    groups: dict[Trouble, tuple[Item, ...]]


def assess(report: Report) -> Assessment:
    """Everything that a format may want to say about ``report``."""
    items = tuple(
        _item(file.path, finding, report) for file in report.files for finding in file.findings
    )
    work = pieces(items, report)
    quick = {
        (each.code, place) for each in work if each.effort == "minutes" for place in each.places
    }
    items = tuple(
        msgspec.structs.replace(item, effort="minutes")
        if item.effort == "hours"
        and (item.finding.code, f"{item.path}:{item.finding.line}") in quick
        else item
        for item in items
    )
    by_hand = [item for item in items if item.effort is not None]
    counted = _lines(items)
    verdict, sentence = decide(report, items, counted, work)
    items = _with_kernels(items)
    severity: Counter[Severity] = Counter(item.finding.severity for item in items)
    handling: Counter[Handling] = Counter(item.handling for item in items)
    trouble: Counter[Trouble] = Counter(item.trouble for item in items)
    status: Counter[str] = Counter(file.status for file in report.files)
    efforts = _efforts(by_hand)
    least, most = span(work)
    added, removed = diff_size(report.files)
    summary = Summary(
        files=len(report.files),
        changed=status["changed"],
        unchanged=status["unchanged"],
        skipped=status["skipped"],
        failed=status["failed"],
        findings=len(items),
        errors=severity["error"],
        warnings=severity["warning"],
        notes=severity["note"],
        undetermined=severity["unknown"],
        applied=handling["rewritten"],
        pending_safe=handling["safe"],
        pending_unsafe=handling["unsafe"],
        manual=handling["by-hand"],
        no_action=handling["note"],
        unknown=sum(item.unknown or item.finding.row in report.unknown for item in items),
        inferred=sum(item.inferred for item in items),
        lines_added=added,
        lines_removed=removed,
        lines=counted,
        effort=efforts,
        troubles={name: trouble[name] for name in TROUBLES if trouble[name]},
        codes=dict(sorted(Counter(item.finding.code for item in items).items())),
        kernel_files=len(report.kernels),
        kernel_lines=sum(file.lines for file in report.kernels),
        work=work,
        least=least,
        most=most,
        verdict=verdict,
        sentence=sentence,
    )
    return Assessment(report, summary, items, _groups(items, report))


def summarise(report: Report) -> Summary:
    """Counts and verdict of ``report``."""
    return assess(report).summary


def _with_kernels(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The same, where what stops in a file around a kernel goes with that: ``assert x.is_cuda`` before the call."""
    kernels = {i.path for i in items if i.trouble == "kernels" and i.finding.severity == "error"}
    return tuple(msgspec.structs.replace(i, trouble="kernels") if i.trouble == "stops" and i.path in kernels else i for i in items)  # fmt: skip


def _item(path: str, finding: Finding, report: Report) -> Item:
    basis = report.rows.get(finding.row or "", _KNOWN)
    handling = handling_of(finding)
    area = AREAS[int(finding.code[3])]
    effort = (basis.effort or finding.effort) if handling == "by-hand" else None
    effect = basis.effect or finding.effect
    trouble = _trouble(finding, handling, basis, effect, report.stage)
    return Item(path, finding, trouble, handling, effort, effect, area, basis)


def handling_of(finding: Finding) -> Handling:
    """Who takes care of a finding: a rewrite made or waiting, a person, or nobody has to."""
    if finding.applied:
        return "rewritten"
    if finding.fix is not None and finding.safety != "manual":
        return finding.safety
    return "note" if finding.severity == "note" else "by-hand"


def _trouble(
    finding: Finding, handling: Handling, basis: Basis, effect: Effect | None, stage: Stage
) -> Trouble:
    if finding.code in _UNREAD:
        return "unread"
    if handling != "by-hand":
        # Other numbers stay other numbers after the rewrite.
        if effect == "numbers":
            return "numbers"
        if handling == "safe" and stage != "before":
            return "other"  # it could not be made
        return {"note": "note", "unsafe": "unsafe"}.get(handling, "rewrite")  # type: ignore[return-value]
    if effect in ("kernel", "cpu"):
        return "kernels" if effect == "kernel" else "cpu"
    if finding.severity == "error":
        return "stops"
    if finding.severity == "unknown" or basis.status == "unknown":
        return "unknown"
    if effect == "numbers":
        return "numbers"
    # What does not work at all is no slower.
    return "speed" if effect == "speed" and basis.status != "unsupported" else "other"


_WORST: dict[str, int] = {"error": 0, "warning": 1, "unknown": 2, "note": 3}


def _groups(items: Iterable[Item], report: Report) -> dict[Trouble, tuple[Item, ...]]:
    found: dict[Trouble, list[Item]] = {name: [] for name in TROUBLES}
    for item in items:
        found[item.trouble].append(item)
    return {
        name: tuple(
            sorted(
                group,
                key=lambda item: (
                    *distance(item.path, report),
                    name == "kernels" and item.effect != "kernel",
                    _WORST[item.finding.severity],
                ),
            )
        )
        for name, group in found.items()
        if group
    }


def _lines(items: Iterable[Item]) -> LineCounts:
    levels_at: dict[tuple[str, int], int] = {}
    for item in items:
        if item.finding.code not in NO_LINE:
            place = (item.path, item.finding.line)
            offered = item.finding.severity == "note"  # a rewrite that nobody has to take
            level = 0 if offered else {"unsafe": 1, "by-hand": 2}.get(item.handling, 0)
            levels_at[place] = max(levels_at.get(place, 0), level)
    levels = Counter(levels_at.values())
    return LineCounts(len(levels_at), levels[0], levels[1], levels[2])


def _efforts(items: Iterable[Item]) -> Efforts:
    found = Counter(item.effort for item in items)
    return Efforts(found["minutes"], found["hours"], found["none"])


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
