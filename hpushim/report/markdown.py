"""The report as Markdown, short enough for a pull-request comment."""

from __future__ import annotations

from collections.abc import Iterator

from hpushim import showing
from hpushim.model import Report
from hpushim.report import words
from hpushim.report.assessment import Assessment, Item, assess
from hpushim.report.markup import code, prose
from hpushim.report.verdict import count

#: Rows of one table; a comment holds 65,536 characters.
_MOST = 50
#: Pieces of work.
_WORKS = 20


def render_markdown(report: Report) -> str:
    """Verdict first, then what needs a person by kind of trouble, then who does what, then counts by code."""
    return "\n".join(_lines(assess(report)))


def _lines(made: Assessment) -> Iterator[str]:
    report, summary = made.report, made.summary
    yield from (f"## hpushim: {summary.verdict}", "", prose(summary.sentence), "")
    yield from (f"Target: {prose(words.setting(report))}.  ", f"Files: {words.files(made)}.", "")
    if trains := words.trains(report):
        yield from (f"Trains: {prose(trains)}.", "")
    for trouble, items in made.groups.items():
        left = [item for item in items if item.handling == "by-hand"]
        if left:
            yield from (f"### {words.heading(made, trouble)}: {len(left):,} by hand", "")
            yield from _table(left)
    broken = [file for file in report.files if file.status in ("failed", "skipped")]
    if broken:
        yield from ("### Not read", "", "| file | status | reason |", "|---|---|---|")
        for file in broken[:_MOST]:
            path, why = code(showing.quoted(file.path)), prose(file.reason or "")
            yield f"| {path} | {file.status} | {why} |"
        yield from _more(len(broken), _MOST)
    if report.dependencies:
        yield from ("### Dependencies", "", "| package | what is known |", "|---|---|")
        for name, says in words.dependencies(report):
            yield f"| {prose(name)} | {prose(says)} |"
        yield ""
    if not summary.findings:
        return
    yield from ("### Next steps", "", "| step | does |", "|---|---|")
    for what, does in words.steps(made):
        yield f"| {what if what == 'by hand' else code(what)} | {prose(does)} |"
    if summary.applied:
        yield f"| done | {count(summary.applied, 'rewrite')} |"
    yield ""
    if summary.manual:
        yield from _works(made)
    yield from (f"Findings: {words.by_severity(made)};  ", f"{words.by_handling(made)};  ")
    yield f"{summary.unknown:,} unknown (hpushim does not know what the code or Gaudi does), {summary.inferred:,} inferred (concluded from a source)."
    yield from ("", "<details><summary>Findings by code</summary>", "", "| code | count |", "|---|---:|")  # fmt: skip
    yield from (f"| {name} | {number} |" for name, number in summary.codes.items())
    yield from ("", "</details>", "")


def _table(items: list[Item]) -> Iterator[str]:
    yield from ("| place | code | severity | what | effort |", "|---|---|---|---|---|")
    for item in items[:_MOST]:
        finding = item.finding
        place = code(f"{showing.quoted(item.path)}:{finding.line}")
        doubt = f" ({words.doubt(item)})" if words.doubt(item) else ""
        effort = words.EFFORTS[item.effort or "minutes"]
        yield f"| {place} | {finding.code} | {item.finding.severity} | {prose(finding.message)}{doubt} | {effort} |"
    yield from _more(len(items), _MOST)


def _more(number: int, shown: int) -> Iterator[str]:
    yield ""
    if number > shown:
        yield from (f"… and {number - shown:,} more.", "")


def _works(made: Assessment) -> Iterator[str]:
    yield from ("| by hand | what | where |", "|---|---|---|")
    for found in made.summary.work[:_WORKS]:
        takes, what, where = words.work(found)
        yield f"| {takes} | {prose(what)} | {code(where)} |"
    yield from _more(len(made.summary.work), _WORKS)
