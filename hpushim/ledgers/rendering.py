"""The formats in which a ledger is shown, by name."""

from __future__ import annotations

import json

import msgspec

import hpushim
from hpushim import showing
from hpushim.ledgers.model import Summary

FORMATS = ("text", "html", "json", "markdown")
SCHEMA_VERSION = 1  # of the JSON


def render(summary: Summary, format: str, *, everything: bool = False) -> str:
    """``summary`` in one of :data:`FORMATS`, ending in a newline; ValueError for another name."""
    if format == "text":
        from hpushim.ledgers.text import render_text

        return render_text(summary, everything=everything)
    if format == "markdown":
        from hpushim.ledgers.markdown import render_markdown

        return render_markdown(summary)
    if format == "html":
        from hpushim.ledgers.html import render_html

        return render_html(summary)
    if format == "json":
        data = {
            "schema_version": SCHEMA_VERSION,
            "tool": f"hpushim {hpushim.__version__}",
            "emulated": True,
        }
        document = {**data, **msgspec.to_builtins(summary)}
        return showing.json(json.dumps(document, indent=1, ensure_ascii=False)) + "\n"
    raise ValueError(f"unknown format {format!r}; one of {', '.join(FORMATS)}")
