"""The portfolio as one page: what there is, what blocks most of it, and a table to filter and sort."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

from hpushim.portfolio.rows import Portfolio, Row, RowVerdict
from hpushim.report.elements import Content, el, head, page, script, sentence
from hpushim.report.html import BADGES
from hpushim.report.verdict import count
from hpushim.report.work import in_words

_SCRIPT = Path(__file__).parent / "templates" / "portfolio.js"
_SHARED = 25
#: Repositories and blockers that a cell names; the file portfolio.json has all.
_NAMED = 3
#: The order of the verdicts, from what can start to what cannot.
_ORDER: tuple[RowVerdict, ...] = (
    "ready",
    "ready with --unsafe",
    "needs work",
    "incomplete",
    "blocked",
    "nothing to do",
    "nothing new",
    "nothing looked at",
    "failed",
)


def render_html(portfolio: Portfolio) -> str:
    """The page; its links lead to the pages beside it."""
    rows = portfolio.repositories
    title = f"{count(len(rows), 'repository', 'repositories')} on Gaudi"
    code = _SCRIPT.read_text(encoding="utf-8")
    body = el(
        "body",
        el("a", "Skip to the repositories", href="#repositories", class_="skip"),
        _top(portfolio, title),
        el("main", _shared(portfolio), _table(portfolio)),
        el(
            "footer",
            el("p", "Ranges are estimates of the time by hand before training starts on Gaudi, and for what to review besides. Nothing "
               "here was run on a Gaudi."),
            el("p", f"Made by {portfolio.tool}."),
            class_="dim small",
        ),
        script(code),
    )  # fmt: skip
    return page(el("html", head(title, code), body, lang="en"))


def _top(portfolio: Portfolio, title: str) -> ET.Element:
    verdicts = sorted(portfolio.verdicts.items(), key=lambda item: _ORDER.index(item[0]))
    takes = (
        f" {in_words(portfolio.least, portfolio.most)} by hand in all." if portfolio.most else ""
    )
    target = portfolio.target
    key = (
        el("li", el("i", class_=_badge(name)), f"{name}: {number:,}") for name, number in verdicts
    )
    total = max(len(portfolio.repositories), 1)
    parts = (
        el("span", class_=_badge(name), style=f"width:{100 * number / total:.2f}%")
        for name, number in verdicts
    )
    return el(
        "header",
        el("h1", title),
        el("p", "; ".join(f"{name}: {number:,}" for name, number in verdicts), f".{takes}", class_="verdict"),
        el("div", parts, class_="bar", aria_hidden="true"),
        el("ul", key, class_="key"),
        el("p", f"Checked for {target.gaudi}, release {target.stack}, mode {target.mode}, style {target.style}.", class_="dim small"),
    )  # fmt: skip


def _badge(verdict: RowVerdict) -> str:
    return "none" if verdict == "failed" else BADGES[verdict]


def _shared(portfolio: Portfolio) -> list[ET.Element]:
    shared = portfolio.blockers[:_SHARED]
    if not shared:
        return []
    rows = (
        el(
            "tr",
            el("th", sentence(each.what), scope="row"),
            el("td", f"{len(each.repositories):,}", class_="n"),
            el("td", f"{each.places:,}", class_="n"),
            el("td", _some(each.repositories)),
        )
        for each in shared
    )
    left = len(portfolio.blockers) - len(shared)
    more = [el("p", f"{count(left, 'more blocker')} in portfolio.json.", class_="dim small")] if left else []  # fmt: skip
    heads = (("what", ""), ("repositories", "n"), ("places", "n"), ("which", ""))
    return [
        el(
            "section",
            el("h2", "What blocks most of them"),
            _scrolled("What blocks most of them", _head(heads), rows),
            more,
        )
    ]


def _table(portfolio: Portfolio) -> ET.Element:
    heads = (("repository", ""), ("verdict", ""), ("by hand", "n"), ("CUDA lines without work", "n"), ("files", "n"), ("what blocks", ""), ("not assessed", "n"))  # fmt: skip
    verdicts = [name for name in _ORDER if name in portfolio.verdicts]
    options = [el("option", "all", value=""), *(el("option", name, value=name) for name in verdicts)]  # fmt: skip
    return el(
        "section",
        el("h2", "Repositories", id="repositories", tabindex="-1"),
        el(
            "form",
            el("label", "Search", el("input", type="search", name="search", placeholder="repository, blocker, word", autocomplete="off"), class_="wide"),
            el("label", "Verdict", el("select", options, name="verdict")),
            el("button", "Reset", type="reset"),
            el("output", "", id="shown", class_="dim small", aria_live="polite"),
            class_="filter", hidden=True, aria_label="Filter repositories",
        ),
        _scrolled("Repositories", _head(heads, sorts=True), map(_row, portfolio.repositories)),
        aria_label="Repositories",
    )  # fmt: skip


def _scrolled(title: str, head: ET.Element, rows: Iterable[ET.Element]) -> ET.Element:
    table = el("table", el("thead", head), el("tbody", rows), class_="wide")
    return el("div", table, class_="scroll", tabindex="0", role="region", aria_label=title)


def _head(names: tuple[tuple[str, str], ...], *, sorts: bool = False) -> ET.Element:
    """Column headings; the script makes buttons of those that sort."""
    return el("tr", (el("th", name, scope="col", class_=kind, data_sorts=sorts) for name, kind in names))  # fmt: skip


def _row(row: Row) -> ET.Element:
    name: Content = el("a", row.name, href=row.page) if row.page else row.name
    takes = in_words(row.least, row.most) if row.most else "–"
    blockers = _some([blocker.what for blocker in row.blockers])
    share = f"{row.share}% of {row.lines:,}" if row.lines else "–"
    unread = f" ({row.unread:,} not read)" if row.unread else ""
    return el(
        "tr",
        el("th", name, scope="row"),
        el("td", el("i", class_=f"dot {_badge(row.verdict)}"), row.verdict),
        el("td", takes, class_="n", data_by=str(row.most)),
        el("td", share, class_="n", data_by=str(row.share)),
        el("td", f"{row.files:,}{unread}", class_="n", data_by=str(row.files)),
        el("td", sentence(blockers or (row.sentence if row.verdict == "failed" else "–"))),
        el("td", f"{len(row.not_assessed):,}", class_="n", data_by=str(len(row.not_assessed)), title=", ".join(row.not_assessed) or False),
        data_verdict=row.verdict,
    )  # fmt: skip


def _some(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
