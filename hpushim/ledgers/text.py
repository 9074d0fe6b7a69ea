"""A ledger as plain text: the verdict, the totals, memory and steps, then the lines of source, the user's files first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from hpushim import showing
from hpushim.ledgers.model import Advice, Event, Fact, Line, Summary
from hpushim.ledgers.stages import stages
from hpushim.ledgers.summary import bytes_text, counted, steps_text

_ROWS = 12  # of the steps
_MOST_EVENTS = 5  # of a line
_MOST_LIBRARY_LINES = 15
_WIDTH = 110


def render_text(summary: Summary, *, everything: bool = False) -> str:
    """One piece of text, ending in a newline. ``everything``: no line and no event is left out."""
    return "".join(f"{showing.one_line(line)}\n" for line in _all(summary, everything))


def _all(summary: Summary, everything: bool) -> Iterator[str]:
    yield summary.verdict
    yield ""
    yield from _facts(summary.facts)
    yield ""
    yield "Memory"
    yield from _facts(summary.memory)
    yield ""
    yield from _steps(summary)
    own = [line for line in summary.lines if line.own]
    others = [line for line in summary.lines if not line.own]
    if own:
        yield ""
        yield "Your files"
        yield from _lines(own, everything)
    if others:
        yield ""
        yield "Libraries"
        heavy = sorted(
            others, key=lambda line: -sum(e.count for e in line.events if e.weight != "shows")
        )
        kept = (
            others
            if everything
            else sorted(heavy[:_MOST_LIBRARY_LINES], key=lambda one: (one.file, one.line))
        )
        yield from _lines(kept, everything)
        if len(kept) < len(others):
            yield f"  {len(others) - len(kept):,} further lines (--all)"
    if summary.breaks:
        yield ""
        yield "Graphs that torch.compile ended, in its own words"
        for one in summary.breaks:
            yield f"  {one.count:,} × {one.reason}"
    if summary.advice:
        yield ""
        yield "What the matrix says"
        yield from _advice(summary.advice)
    yield ""
    yield from summary.notes


def _facts(facts: Sequence[Fact]) -> Iterator[str]:
    width = max(len(fact.name) for fact in facts)
    for fact in facts:
        label = f"  [{fact.advice.label}]" if fact.advice else ""
        yield f"  {fact.name.ljust(width)}  {fact.value}{label}"


def _steps(summary: Summary) -> Iterator[str]:
    yield f"Steps: {steps_text(summary.steps)}"
    rows = stages(summary.steps, _ROWS)
    if not rows:
        return
    heads = (
        "step",
        "operators",
        "recompiled",
        "host syncs",
        "to the device",
        "to the host",
        "peak",
    )
    table = [
        (
            one.label,
            f"{one.operators:,}",
            f"{one.recompilations:,}",
            f"{one.host_syncs:,}",
            bytes_text(one.to_device),
            bytes_text(one.to_host),
            bytes_text(one.peak),
        )
        for one in rows
    ]
    widths = [max(len(row[at]) for row in (heads, *table)) for at in range(len(heads))]
    for row in (heads, *table):
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    if summary.steps.entries:
        yield "  Step 1 holds what came before the training too."
    if any(summary.after.get(name) for name in ("operators", "recompilations", "host_syncs")):
        yield (
            f"  After the last step: {counted(summary.after['operators'], 'operator')}, {summary.after['recompilations']:,} recompiled, {counted(summary.after['host_syncs'], 'host sync')}, "
            f"{bytes_text(summary.after['device_to_host_bytes'])} copied to the host."
        )


def _lines(lines: Sequence[Line], everything: bool) -> Iterator[str]:
    for file, group in groupby(lines, key=lambda line: line.shown):
        yield f"  {showing.quoted(file)}"
        for line in group:
            yield f"  {line.line:>6}  {_clipped(line.source)}"
            shown = line.events if everything else line.events[:_MOST_EVENTS]
            for event in shown:
                yield from _event(event)
            rest = line.events[len(shown) :]
            if rest:
                yield f"          {counted(len(rest), 'further kind')}, {counted(sum(e.count for e in rest), 'time')} (--all)"


def _event(event: Event) -> Iterator[str]:
    moved = f", {bytes_text(event.bytes)}" if event.bytes else ""
    label = f"  [{event.advice.label}]" if event.advice else ""
    text = f"{event.count:,} × {event.text}{moved}{label}"
    yield from textwrap.wrap(
        text, _WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 14, break_long_words=False
    )


def _clipped(source: str) -> str:
    return source if len(source) <= 90 else f"{source[:89]}…"


def _advice(found: Sequence[Advice]) -> Iterator[str]:
    for one in found:
        text = f"[{one.label}] {one.said}"
        yield from textwrap.wrap(
            text, _WIDTH, initial_indent="  ", subsequent_indent="      ", break_long_words=False
        )
    codes = [one.code for one in found if one.code]
    if codes:
        yield f"  More: hpushim explain {codes[0]}"
