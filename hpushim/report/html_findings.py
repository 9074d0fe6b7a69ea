"""The findings of the HTML report: by kind of trouble, each message once, each place beside its code and what it becomes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from hpushim import showing
from hpushim.report import words
from hpushim.report.assessment import Assessment, Item, Trouble
from hpushim.report.elements import Content, el, sentence
from hpushim.report.hunks import Hunk, Hunks
from hpushim.report.source import Lines

#: Characters of code that a page carries; with more, places that need no person go without, so that it opens at once.
_CODE = 1_800_000
#: Lines and characters of a line that are shown of a change.
_LINES = 12
_WIDTH = 200
#: Groups that are open when the page opens, as long as they are short.
_OPEN: frozenset[Trouble] = frozenset({"unread", "stops", "kernels", "cpu"})
_SHORT = 20


def sections(made: Assessment) -> Iterator[ET.Element]:
    """A section for each kind of trouble."""
    code = _Code(made)
    for trouble, items in made.groups.items():
        yield el(
            "section",
            el("h3", sentence(words.heading(made, trouble)), f": {len(items):,}"),
            (_group(found, trouble, code) for found in messages(items)),
            data_trouble=trouble,
        )


def messages(items: tuple[Item, ...]) -> list[list[Item]]:
    """The findings of each message."""
    same: dict[tuple[str, str, str, str], list[Item]] = {}
    for item in items:
        key = (item.finding.code, item.finding.severity, item.finding.message, words.tags(item))
        same.setdefault(key, []).append(item)
    return list(same.values())


def _group(items: list[Item], trouble: Trouble, code: _Code) -> ET.Element:
    first = items[0]
    severity = first.finding.severity
    head: list[Content] = [
        el("span", severity, class_=f"sev {severity}"),
        " ",
        el("b", first.finding.code),
        " ",
        *sentence(first.finding.message),
        " ",
    ]
    if doer := words.doer(first):
        head += [el("span", doer, class_="tag"), " "]
    if doubt := words.doubt(first):
        head += [el("span", doubt, class_="tag"), " "]
    if len(items) > 1:
        head.append(el("span", f"{len(items):,} places", class_="dim small"))
    return el(
        "details",
        el("summary", head),
        el("ol", (_place(item, code) for item in items)),
        class_="g",
        open=trouble in _OPEN and len(items) <= _SHORT,
        data_trouble=trouble,
        data_severity=severity,
        data_who=first.handling,
        data_area=first.area,
    )


def _place(item: Item, code: _Code) -> ET.Element:
    finding = item.finding
    where = el("code", f"{showing.quoted(item.path)}:{finding.line}")
    shown = code.of(item)
    return el("li", where) if shown is None else el("li", where, shown)


class _Code:
    """The code at each finding, within what one page carries: first of what needs a person."""

    def __init__(self, made: Assessment) -> None:
        self._files = {file.path: file for file in made.report.files}
        self._lines: dict[str, Lines] = {}
        self._hunks: dict[str, Hunks] = {}
        self._left = _CODE

    def of(self, item: Item) -> ET.Element | None:
        """The change of its lines, or the line itself where there is none."""
        if self._left < 0 and item.handling != "by-hand":
            return None
        file = self._files[item.path]
        if item.path not in self._lines:
            self._lines[item.path], self._hunks[item.path] = Lines(file), Hunks(file)
        hunk = self._hunks[item.path].of(item.finding) if item.handling not in ("by-hand", "note") else None  # fmt: skip
        made = _change(hunk.at(item.finding)) if hunk is not None else self._line(item)
        if made is not None:
            self._left -= sum(len(text) for text in made.itertext())
        return made

    def _line(self, item: Item) -> ET.Element | None:
        part = self._lines[item.path].excerpt(item.finding)
        if part is None:
            return None
        return el("pre", el("code", part.before, el("mark", part.marked), part.after))


def _change(hunk: Hunk) -> ET.Element:
    old, new = ([line.rstrip("\r\n")[:_WIDTH] for line in lines] for lines in (hunk.old, hunk.new))
    parts: list[Content] = [el("del", f"-{line}\n") for line in old[:_LINES]]
    parts += [el("ins", f"+{line}\n") for line in new[:_LINES]]
    if len(old) > _LINES or len(new) > _LINES:
        parts.append("… `hpushim migrate --diff` shows the rest")
    return el("pre", parts)
