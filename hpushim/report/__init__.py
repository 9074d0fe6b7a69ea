"""Report in, text out: one renderer per file, found by the name of its format."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from hpushim.report.assessment import Assessment, Summary, assess, summarise

if TYPE_CHECKING:
    from hpushim.model import Report

__all__ = [
    "FORMATS",
    "PROPOSING",
    "PURPOSES",
    "Assessment",
    "Summary",
    "assess",
    "render",
    "summarise",
]

#: Formats and what each is for.
PURPOSES = {
    "text": "grouped by impact, for a terminal",
    "concise": "one finding per line",
    "json": "for programs; stable, with a schema",
    "html": "one page for a browser, with charts, filter and the proposed changes",
    "markdown": "for a pull request",
    "csv": "for a spreadsheet",
    "sarif": "SARIF 2.1.0, for code scanning",
    "github": "GitHub Actions annotations",
    "gitlab": "GitLab code quality",
    "junit": "JUnit XML",
}
#: Formats that :func:`render` knows, the default first.
FORMATS = tuple(PURPOSES)
#: Formats that show what the rewrites would make of a file, which has to be worked out for them.
PROPOSING = frozenset({"html", "sarif"})


def render(report: Report, format: str = "text", *, color: bool = False) -> str:
    """``report`` as text of one of :data:`FORMATS`, ending in a newline; ValueError for another name."""
    if format not in FORMATS:
        raise ValueError(f"unknown report format {format!r}; one of {', '.join(FORMATS)}")
    if format in ("text", "concise"):
        from hpushim.report.text import render_text

        return render_text(report, concise=format == "concise", color=color)
    module = importlib.import_module(f"hpushim.report.{format}")
    made: str = getattr(module, f"render_{format}")(report)
    return made
