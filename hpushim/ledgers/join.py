"""A report beside a run: what was predicted and happened, what happened and no rule had said, what was predicted and not seen.

Joined by file and line, for the kinds of trouble that leave a trace in a ledger: reads that wait, shapes that change, dtypes,
operators and collectives that the device has not. What else a report finds (a name to rewrite, say) no ledger can show.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hpushim import showing
from hpushim.ledgers.model import Event, Line, Summary
from hpushim.model import Finding, Report

#: Codes whose findings are of the same kind of trouble as an event, by the event's kind.
_CODES = {
    "host_sync": ("HPU120", "HPU513", "HPU514", "HPU515", "HPU531"),
    "recompilation": ("HPU514", "HPU515", "HPU524", "HPU525", "HPU526", "HPU527"),
    "recompilation_by_number": ("HPU514",),
    "demotion": ("HPU117", "HPU118"),
    "refused_dtype": ("HPU118", "HPU209", "HPU213"),
    "cpu_fallback": ("HPU118", "HPU124", "HPU514", "HPU515", "HPU516"),
    "collective_limit": ("HPU313",),
}
_ALL_CODES = frozenset(code for codes in _CODES.values() for code in codes)


class Happened(msgspec.Struct, frozen=True):
    """Something of the run at a line; ``findings`` are those that said so."""

    path: str
    line: int
    source: str
    event: Event
    findings: tuple[Finding, ...] = ()


class Predicted(msgspec.Struct, frozen=True):
    """A finding of which the run shows nothing."""

    path: str
    finding: Finding


class Joined(msgspec.Struct, frozen=True):
    """A report and a ledger held beside each other. Paths are those of the report."""

    ledger: str
    happened: tuple[Happened, ...]
    unpredicted: tuple[Happened, ...]
    unseen: tuple[Predicted, ...]
    seen_files: int  #: files of the report of which the ledger has a line
    notes: tuple[str, ...] = ()


def join(report: Report, summary: Summary) -> Joined:
    """Hold ``report`` beside what a run did."""
    root = Path(os.path.realpath(report.root))
    paths = {str(root / file.path): file.path for file in report.files}
    findings = {
        file.path: [f for f in file.findings if f.code in _ALL_CODES] for file in report.files
    }
    here = [
        (paths[real], line)
        for line in summary.lines
        if (real := os.path.realpath(line.file)) in paths
    ]
    happened: list[Happened] = []
    unpredicted: list[Happened] = []
    used: set[tuple[str, Finding]] = set()
    shapes = {path for path, line in here for e in line.events if e.kind == "recompilation"}
    ran = {path for path, _ in here}
    of_shapes = [
        (path, f)
        for path, found in findings.items()
        for f in found
        if path in ran and f.code in _CODES["recompilation"]
    ]
    reported_shapes = False
    for path, line in here:
        for event in line.events:
            if event.kind not in _CODES or not _in_training(event, summary):
                continue
            matching = tuple(f for f in findings[path] if _says(f, line, event))
            one = Happened(path, line.line, line.source, event, matching)
            used.update((path, finding) for finding in matching)
            if matching:
                happened.append(one)
            elif event.kind != "recompilation":
                unpredicted.append(one)
            elif not reported_shapes:
                # One size that changes shows at every line that it reaches: reported once, at its first.
                reported_shapes = True
                first = _first_of(here) or (path, line, event)
                one = Happened(
                    first[0],
                    first[1].line,
                    first[1].source,
                    first[2],
                    tuple(f for _, f in of_shapes[:1]),
                )
                (happened if of_shapes else unpredicted).append(one)
    if shapes:
        used.update(of_shapes)
    unseen = [
        Predicted(path, finding)
        for path, found in findings.items()
        for finding in found
        if (path, finding) not in used
    ]
    return Joined(
        summary.path,
        tuple(happened),
        tuple(unpredicted),
        tuple(unseen),
        len(ran),
        summary.notes[1:],
    )


def _says(finding: Finding, line: Line, event: Event) -> bool:
    inside = finding.line <= line.line <= max(finding.line, finding.end_line)
    return inside and finding.code in _CODES[event.kind]


def _in_training(event: Event, summary: Summary) -> bool:
    """Whether an event may be one of the training itself: a checkpoint's copies after the last step are not."""
    if event.kind != "host_sync" or not summary.after:
        return True
    return not (event.bytes and event.count <= summary.after.get("host_syncs", 0))


def _first_of(here: list[tuple[str, Line]]) -> tuple[str, Line, Event] | None:
    """The first line at which a shape was another: the first that the totals name."""
    found = [
        (path, line, event)
        for path, line in here
        for event in line.events
        if event.kind == "recompilation"
    ]
    return min(found, key=lambda one: one[1].first_change or 1 << 62) if found else None


def text_of(joined: Joined) -> str:
    """The join for a terminal, ending in a newline."""
    return "".join(f"{showing.one_line(line)}\n" for line in _lines(joined))


def _lines(joined: Joined) -> Iterator[str]:
    yield f"Beside the run of {showing.quoted(showing.path(joined.ledger))} (emulated)"
    if not joined.seen_files:
        yield (
            "  The ledger has no lines of these files: it belongs to another project or another "
            "copy."
        )
        return
    yield f"  predicted and observed: {len(joined.happened)}"
    for one in joined.happened:
        codes = ", ".join(sorted({f.code for f in one.findings}))
        yield f"    {_place(one)}: {codes} {one.event.count:,} × {one.event.text}"
    yield f"  observed but not predicted: {len(joined.unpredicted)}"
    for one in joined.unpredicted:
        label = f" [{one.event.advice.label}]" if one.event.advice else ""
        yield f"    {_place(one)}: {one.event.count:,} × {one.event.text}{label}"
    yield f"  predicted but not observed in this run: {len(joined.unseen)}"
    for missing in joined.unseen:
        f = missing.finding
        yield f"    {showing.quoted(missing.path)}:{f.line}: {f.code} {f.message}"
    yield from (f"  {note}" for note in joined.notes)


def _place(one: Happened) -> str:
    return f"{showing.quoted(one.path)}:{one.line}"
