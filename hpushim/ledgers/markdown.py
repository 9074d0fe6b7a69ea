"""A ledger as Markdown: short enough for an issue or a pull request."""

from __future__ import annotations

from hpushim import showing
from hpushim.ledgers.model import Summary
from hpushim.ledgers.stages import stages
from hpushim.ledgers.summary import bytes_text, steps_text
from hpushim.report.markup import code, prose

_MOST_LINES = 60
_ROWS = 8


def render_markdown(summary: Summary) -> str:
    """The verdict, totals, steps, and the lines of the user's own files on which something costs or changes."""
    out = [
        "## hpushim: what ran (emulated)",
        "",
        prose(summary.verdict),
        "",
        "| what | |",
        "|---|---|",
    ]
    out += [
        f"| {prose(fact.name)} | {prose(fact.value)} |"
        for fact in (*summary.facts, *summary.memory)
    ]
    out += ["", f"### Steps: {prose(steps_text(summary.steps))}", ""]
    rows = stages(summary.steps, _ROWS)
    if rows:
        out += [
            "| step | operators | recompiled | host syncs | to the device | peak |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        out += [
            f"| {one.label} | {one.operators:,} | {one.recompilations:,} | {one.host_syncs:,} | {bytes_text(one.to_device)} | {bytes_text(one.peak)} |"
            for one in rows
        ]
        out.append("")
    events = [
        (line, event)
        for line in summary.lines
        for event in line.events
        if line.own and event.weight != "shows"
    ]
    if events:
        out += ["### Lines", "", "| place | times | what | |", "|---|---:|---|---|"]
        out += [
            f"| {code(f'{showing.quoted(line.shown)}:{line.line}')} | {event.count:,} | {prose(event.text)} | {prose(event.advice.label if event.advice else '')} |"
            for line, event in events[:_MOST_LINES]
        ]
        if len(events) > _MOST_LINES:
            out.append(f"| … | | {len(events) - _MOST_LINES} more | |")
        out.append("")
    if summary.advice:
        out += ["### What the matrix says", ""]
        out += [f"- **{prose(one.label)}**: {prose(one.said)}" for one in summary.advice]
        out.append("")
    out += [prose(note) for note in summary.notes]
    return "\n".join(out) + "\n"
