"""The report as one HTML file: no network, light and dark, to filter, to print and to read with a screen reader."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import PurePath

from hpushim import showing
from hpushim.model import AREAS, Report
from hpushim.report import words
from hpushim.report.assessment import HANDLINGS, TROUBLES, Assessment, assess
from hpushim.report.elements import TEMPLATES, Content, el, head, page, path, script, sentence
from hpushim.report.html_findings import sections
from hpushim.report.verdict import Verdict, count
from hpushim.report.work import Work, in_words, span

#: Pieces of work in the table that is open; the others are behind a line to click.
_WORKS = 12
_BLOCKERS = 8
_MOST_ROWS = 300
_WHO = {
    "rewritten": "rewritten",
    "safe": "migrate",
    "unsafe": "migrate --unsafe",
    "by-hand": "by hand",
    "note": "no action needed",
}


def render_html(report: Report) -> str:
    """The page."""
    made = assess(report)
    code = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    name = PurePath(report.root).name or "this project"
    body = el(
        "body",
        el("a", "Skip to the findings", href="#findings", class_="skip"),
        _top(made, name),
        el(
            "main",
            _blockers(made),
            _tiles(made),
            _work(made),
            _dependencies(report),
            _unread(report),
            _findings(made),
        ),
        _foot(made),
        script(code),
    )
    title = f"{name} on Gaudi: {made.summary.verdict}"
    return page(el("html", head(title, code), body, lang="en"))


def _top(made: Assessment, name: str) -> ET.Element:
    report, summary = made.report, made.summary
    least, most = span([work for work in summary.work if work.required])
    takes = f" {in_words(least, most)} before it trains on Gaudi" if most else ""
    return el(
        "header",
        el("h1", f"Can {name} move to Gaudi?"),
        el(
            "p",
            el("i", class_=BADGES[summary.verdict]),
            el("b", summary.verdict),
            takes,
            class_="badge",
        ),
        el("p", sentence(summary.sentence), class_="verdict"),
        el("p", f"Checked for {words.setting(report)}.", class_="dim small"),
        el("p", f"Files: {words.files(made)}.", class_="dim small"),
        *(
            [el("p", "Trains: ", sentence(trains), ".", class_="dim small")]
            if (trains := words.trains(report))
            else ()
        ),
    )


#: The colour of each verdict, by what the bars call it.
BADGES: dict[Verdict, str] = {
    "ready": "auto",
    "nothing to do": "auto",
    "nothing new": "auto",
    "ready with --unsafe": "unsafe",
    "needs work": "hand",
    "incomplete": "hand",
    "blocked": "none",
    "nothing looked at": "info",
}


def _blockers(made: Assessment) -> list[ET.Element]:
    """What is in the way, each piece of work with its first place."""
    required = [work for work in made.summary.work if work.required]
    if not required:
        return []
    shown = []
    for work in required[:_BLOCKERS]:
        _, what, where = words.work(work)
        shown.append(el("li", path(where), ": ", sentence(what)))
    if len(required) > _BLOCKERS:
        left = count(len(required) - _BLOCKERS, "more piece")
        shown.append(el("li", el("a", f"and {left} of work", href="#by-hand")))
    places = count(sum(len(work.places) for work in required), "place")
    title = f"Before it trains on Gaudi: {count(len(required), 'piece')} of work by hand ({places})"
    return [el("section", el("h2", title), el("ul", shown))]


def _tiles(made: Assessment) -> ET.Element:
    s = made.summary
    lines = s.lines
    return el(
        "div",
        _tile(
            "Lines without manual work",
            f"{lines.share}%" if lines.total else "–",
            f"{lines.total - lines.by_hand:,} of {count(lines.total, 'line')}",
            (("auto", "rewritten by migrate, or nothing to do", lines.free), ("unsafe", "with --unsafe", lines.unsafe), ("hand", "by hand", lines.by_hand)),
        ),
        _tile(
            "Places that need a person",
            f"{s.manual:,}",
            f"of {count(s.findings, 'finding')}",
            (("minutes", "minutes each", s.effort.minutes), ("hours", "hours each", s.effort.hours), ("none", "no counterpart on Gaudi", s.effort.none)),
        ),
        _tile(
            "Who resolves the findings",
            f"{s.findings:,}",
            words.by_severity(made).partition(" = ")[2],
            (("auto", "rewritten", s.applied), ("auto", "migrate", s.pending_safe), ("unsafe", "migrate --unsafe", s.pending_unsafe), ("hand", "by hand", s.manual), ("info", "no action needed", s.no_action)),
        ),
        class_="cards",
    )  # fmt: skip


def _tile(
    title: str, figure: str, what: str, parts: tuple[tuple[str, str, int], ...]
) -> ET.Element:
    there = [part for part in parts if part[2]]
    return el(
        "section",
        el("h2", title),
        el("div", figure, class_="big"),
        el("div", what, class_="dim small"),
        _bar([(kind, number) for kind, _, number in there]),
        el("ul", (el("li", el("i", class_=kind), f"{label}: {number:,}") for kind, label, number in there), class_="key"),
        class_="card",
    )  # fmt: skip


def _bar(parts: list[tuple[str, int]], most: int = 0) -> ET.Element:
    """A bar of parts side by side; ``most`` is what a full one represents. The figures are beside it as text."""
    total = max(sum(number for _, number in parts), most, 1)
    spans = (
        el("span", class_=kind, style=f"width:{100 * number / total:.2f}%")
        for kind, number in parts
        if number
    )
    return el("div", spans, class_="bar", aria_hidden="true")


def _work(made: Assessment) -> ET.Element:
    summary = made.summary
    found = el("section", el("h2", "What to do"), aria_label="What to do")
    steps = words.steps(made)
    if steps:
        found.append(el("ol", (el("li", el("b", what), ": ", sentence(does)) for what, does in steps)))  # fmt: skip
    else:
        found.append(el("p", "Nothing is left to do."))
    if summary.unknown or summary.inferred:
        found.append(
            el(
                "p",
                f"{count(summary.unknown, 'finding')} unknown (hpushim does not know what the code or Gaudi does), {summary.inferred:,} inferred (concluded "
                "from a source, not stated there); each is marked.",
            )
        )
    if summary.manual:
        first = _works(f"By hand: {words.amount(summary)}", summary.work[:_WORKS])
        first.set("id", "by-hand")
        found.append(first)
        if len(summary.work) > _WORKS:
            more = summary.work[_WORKS:_MOST_ROWS]
            title = f"{count(len(more), 'more piece')} of work"
            found.append(el("details", el("summary", title), _works(title, more)))
    return found


def _works(title: str, works: Sequence[Work]) -> ET.Element:
    heads = (el("th", name, scope="col") for name in ("takes", "what", "where"))
    table = el(
        "table",
        el("caption", title),
        el("thead", el("tr", heads)),
        el("tbody", (_piece(work) for work in works)),
        class_="works",
    )
    return el("div", table, class_="scroll", tabindex="0", role="region", aria_label=title)


def _piece(work: Work) -> ET.Element:
    takes, what, where = words.work(work)
    cells = (el("td", sentence(what)), el("td", path(where)))
    return el("tr", el("th", takes, scope="row"), *cells)


def _dependencies(report: Report) -> list[ET.Element]:
    found = words.dependencies(report)
    if not found:
        return []
    rows = (el("tr", el("th", name, scope="row"), el("td", says)) for name, says in found)
    head = el("tr", el("th", "package", scope="col"), el("th", "what is known", scope="col"))
    table = el("table", el("thead", head), el("tbody", rows))
    scroll = el("div", table, class_="scroll", tabindex="0", role="region", aria_label="Packages")  # fmt: skip
    return [el("section", el("h2", "Dependencies"), scroll, aria_label="Dependencies")]


def _unread(report: Report) -> list[ET.Element]:
    files = [file for file in report.files if file.reason]
    if not files and not report.kernels:
        return []
    rows: list[tuple[str, str, str]] = [
        (showing.quoted(file.path), file.status, file.reason or "") for file in files
    ]
    rows += [
        (
            showing.quoted(file.path),
            "CUDA source",
            f"{count(file.lines, 'line')}; hpushim does not check it",
        )
        for file in report.kernels
    ]
    title = f"Files that were not checked: {len(rows):,}"
    head = el("tr", (el("th", name, scope="col") for name in ("file", "what", "why")))
    body = (
        el("tr", el("th", path, scope="row"), el("td", status), el("td", sentence(why)))
        for path, status, why in rows[:_MOST_ROWS]
    )
    table = el("table", el("caption", title), el("thead", head), el("tbody", body))
    is_open = any(file.status == "failed" for file in files)
    return [el("details", el("summary", title), el("div", table, class_="scroll"), open=is_open)]


def _findings(made: Assessment) -> ET.Element:
    return el(
        "section",
        el("h2", "Findings", id="findings", tabindex="-1"),
        _filter(made) if made.items else el("p", "None."),
        sections(made),
        aria_label="Findings",
    )


def _filter(made: Assessment) -> ET.Element:
    used_severities = {item.finding.severity for item in made.items}
    used_areas = {item.area for item in made.items}
    used_handlings = {item.handling for item in made.items}
    return el(
        "form",
        el("label", "Search", el("input", type="search", name="search", placeholder="file, code, word", autocomplete="off"), class_="wide"),
        _select("trouble", "Trouble", [(name, TROUBLES[name].replace("`", "")) for name in made.groups]),
        _select("severity", "Severity", [(name, name) for name in words.SEVERITIES if name in used_severities]),
        _select("who", "Who", [(name, _WHO[name]) for name in HANDLINGS if name in used_handlings]),
        _select("area", "Area", [(name, name) for name in AREAS if name in used_areas]),
        el("button", "Reset", type="reset"),
        el("button", "Open or close all", type="button", id="open"),
        el("output", "", id="shown", class_="dim small", aria_live="polite"),
        class_="filter", hidden=True, aria_label="Filter findings",
    )  # fmt: skip


def _select(name: str, label: str, options: list[tuple[str, str]]) -> ET.Element:
    choices = [el("option", "all", value="")]
    choices += [el("option", text, value=value) for value, text in options]
    return el("label", label, el("select", choices, name=name))


def _foot(made: Assessment) -> ET.Element:
    report = made.report
    meanings: list[Content] = []
    for name, meaning in words.SEVERITIES.items():
        meanings += [el("span", name, class_=f"sev {name}"), f": {meaning}. "]
    return el(
        "footer",
        el("p", meanings),
        *(el("p", sentence(f"{line}.")) for line in words.legend(made)[1:]),
        el("p", "Counted are lines with a finding. ", el("code", "hpushim explain CODE"), " explains a code. "
           "Nothing here was run on a Gaudi: the facts come from public documents and sources, which ", el("code", "hpushim api NAME"), " names."),
        el("p", f"Made by {report.tool or 'hpushim'}."),
        class_="dim small",
    )  # fmt: skip
