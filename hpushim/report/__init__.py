"""Report in, text out: one renderer per file, found by the name of its format."""

from __future__ import annotations

from hpushim.report.summary import Summary, summarise

__all__ = ["FORMATS", "Summary", "render", "summarise"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpushim.model import Report

#: Formats that :func:`render` knows, the default first.
FORMATS = ("text", "concise", "json", "markdown")


def render(report: Report, format: str = "text", *, color: bool = False) -> str:
    """``report`` as text of one of :data:`FORMATS`, ending in a newline; ValueError for another name."""
    if format == "json":
        from hpushim.report.json import render_json

        return render_json(report)
    if format == "markdown":
        from hpushim.report.markdown import render_markdown

        return render_markdown(report)
    if format in ("text", "concise"):
        from hpushim.report.text import render_text

        return render_text(report, concise=format == "concise", color=color)
    raise ValueError(f"unknown report format {format!r}; one of {', '.join(FORMATS)}")
