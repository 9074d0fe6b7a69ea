"""A ledger as one HTML file: no network, light and dark, usable by keyboard and screen reader, fit to print."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import jinja2
import msgspec

from hpushim import showing
from hpushim.ledgers.model import Summary
from hpushim.ledgers.stages import Stage, stages
from hpushim.ledgers.summary import bytes_text, counted, steps_text

_BARS = 64
_WIDTH, _HEIGHT = 640, 120  # of a chart, in its own units
_WEIGHTS = {
    "blocks": "does not run on a Gaudi",
    "changes": "changes numbers",
    "costs": "costs time on a Gaudi",
    "shows": "what ran",
}


class Bar(msgspec.Struct, frozen=True):
    """A bar of a chart, from its left upper corner, and what it says."""

    x: float
    y: float
    width: float
    height: float
    says: str


def render_html(summary: Summary) -> str:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hpushim.ledgers"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: showing.lines(value) if type(value) is str else value,
    )
    environment.filters["bytes"] = bytes_text
    environment.filters["counted"] = counted
    environment.filters["quoted"] = showing.quoted
    rows = stages(summary.steps, _BARS)
    files = [
        (name, list(group)) for name, group in groupby(summary.lines, key=lambda line: line.shown)
    ]
    page = environment.get_template("ledger.html")
    return page.render(
        summary=summary,
        title="hpushim: what ran (emulated)",
        steps=steps_text(summary.steps),
        rows=rows,
        own=[one for one in files if one[1][0].own],
        libraries=[one for one in files if not one[1][0].own],
        weights=_WEIGHTS,
        charts=_charts(rows),
        width=_WIDTH,
        height=_HEIGHT,
    )


def _charts(rows: list[Stage]) -> list[tuple[str, str, list[Bar]]]:
    """Title, largest value, bars."""
    charts = []
    shown: dict[str, Callable[[float], str]] = {
        "bytes": bytes_text,
        "plain": lambda value: f"{value:.3g}",
    }
    peaks = [float(row.peak) for row in rows]
    compiled = [row.a_step(row.recompilations) for row in rows]
    syncs = [row.a_step(row.host_syncs) for row in rows]
    for title, values, unit in (
        ("Peak of memory in each step", peaks, "bytes"),
        ("Recompilations a step", compiled, "plain"),
        ("Host syncs a step", syncs, "plain"),
    ):
        top = max(values, default=0)
        if top > 0:
            charts.append((title, shown[unit](top), _bars(rows, values, top, shown[unit])))
    return charts


def _bars(
    rows: list[Stage], values: list[float], top: float, said: Callable[[float], str]
) -> list[Bar]:
    room = _WIDTH / len(rows)
    return [
        Bar(
            round(at * room, 1),
            round(_HEIGHT * (1 - value / top), 1),
            round(max(room - 1, 0.5), 1),
            round(_HEIGHT * value / top, 1),
            f"step {row.label}: {said(value)}",
        )
        for at, (row, value) in enumerate(zip(rows, values, strict=True))
    ]
