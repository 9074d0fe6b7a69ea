"""The report for people at a terminal: the verdict, then findings by kind of trouble, then who has to do what."""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from hpushim import showing
from hpushim.model import FileResult, Report
from hpushim.report import words
from hpushim.report.assessment import (
    NO_LINE,
    TROUBLES,
    Assessment,
    Item,
    Trouble,
    assess,
    diff_size,
)
from hpushim.report.source import Lines
from hpushim.report.verdict import count

_STYLE = {"error": "bold red", "warning": "yellow", "note": "cyan", "unknown": "magenta"}
#: Characters of a message that are shown.
_LONGEST = 2000
_END = 200
#: Places that are shown of one message; of those that no person has to look at, fewer.
_MOST = 25
_FEW = 3
#: Pieces of work that are shown, and characters of what each is about.
_WORKS = 12
_SHORT = 110
#: Characters of an expression for which the same is said.
_NAMED = 50
#: Messages of a quiet group; with more of them, it is reported by code.
_MESSAGES = 40
_QUOTED = re.compile(r"`[^`]*`")
#: The first part of a message: what it quotes belongs to it as a whole.
_FIRST = re.compile(r"(?:`[^`]*`|(?![;.] ).)+")
_QUIET: frozenset[Trouble] = frozenset({"unsafe", "rewrite", "note"})
Line = list[tuple[str, str]]


def render_text(report: Report, *, concise: bool = False, color: bool = False) -> str:
    """Findings by kind of trouble; with ``concise`` one a line, in the order of the files."""
    assessment = assess(report)
    if concise:
        lines = _concise(assessment)
    else:
        lines = _made(assessment) if report.stage == "migrated" else _lines(assessment)
    if not color:
        plain = ("".join(text for text, _ in line).rstrip() for line in lines)
        return "".join(f"{showing.one_line(line)}\n" for line in plain)
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text.assemble(*((showing.one_line(text), style) for text, style in line)))
    return out.getvalue()


def _concise(assessment: Assessment) -> Iterator[Line]:
    for item in assessment.items:
        finding = item.finding
        yield [
            (f"{showing.quoted(item.path)}:{finding.line}:{finding.column}: ", "bold"),
            (f"{finding.code} {item.finding.severity}", _STYLE[item.finding.severity]),
            (f": {_clipped(finding.message)} {words.tags(item)}", ""),
        ]
    yield from _verdict(assessment)


def _lines(assessment: Assessment) -> Iterator[Line]:
    report, summary = assessment.report, assessment.summary
    yield from _verdict(assessment)
    yield [(f"Target: {words.setting(report)}", "dim")]
    yield [(f"Files: {words.files(assessment)}", "dim")]
    if trains := words.trains(report):
        yield [(f"Trains: {_clipped(trains)}", "dim")]
    if summary.findings:
        yield from _steps(assessment)
        yield from _by_hand(assessment)
        yield from _legend(assessment)
    yield from _unread(assessment)
    sources = _Sources(report)
    for trouble, items in assessment.groups.items():
        yield [("", "")]
        yield [
            (
                f"{words.heading(assessment, trouble)}: {len(items):,}{words.needed(assessment, trouble)}",
                "bold underline",
            )
        ]
        yield from (_quiet if trouble in _QUIET else _messages)(items, sources)
    yield from _dependencies(report)
    if not summary.findings:
        return
    yield [("", "")]
    yield from _counts(assessment)
    yield from _verdict(assessment)


def _made(assessment: Assessment) -> Iterator[Line]:
    """What `migrate` did: a line for each file, what could not be rewritten, and what comes next."""
    made: Counter[str] = Counter(i.path for i in assessment.items if i.handling == "rewritten")
    for file in assessment.report.files:
        if file.status == "changed":
            added, removed = diff_size((file,))
            path = (showing.quoted(file.path), "bold")
            yield [path, (f": {count(made[file.path], 'rewrite')}, +{added:,} -{removed:,} lines", "")]  # fmt: skip
    yield from _unread(assessment)
    unread = assessment.groups.get("unread", ())
    if unread:
        yield [(f"{TROUBLES['unread']}: {len(unread):,}", "bold underline")]
        yield from _messages(unread, _Sources(assessment.report))
    yield [(f"Files: {words.files(assessment)}", "dim")]
    yield from _counts(assessment)
    yield from _steps(assessment)
    yield from _verdict(assessment)


def _counts(assessment: Assessment) -> Iterator[Line]:
    yield [(f"Findings: {words.by_severity(assessment)}", "")]
    yield [(f"          {words.by_handling(assessment)}", "")]


def _steps(assessment: Assessment) -> Iterator[Line]:
    steps = words.steps(assessment)
    width = max((len(what) for what, _ in steps), default=0)
    for number, (what, does) in enumerate(steps):
        yield [("Next:     " if not number else "          ", ""), (f"{what:{width}}", "bold"), (f"  {does}", "")]  # fmt: skip


def _verdict(assessment: Assessment) -> Iterator[Line]:
    summary = assessment.summary
    yield [("Verdict: ", "bold"), (f"{summary.verdict}. {summary.sentence}", "")]


def _unread(assessment: Assessment) -> Iterator[Line]:
    """Why a file was not assessed or written, where no finding says it."""
    reported = {item.path for item in assessment.items if item.finding.code in NO_LINE}
    for file in assessment.report.files:
        if file.status in ("failed", "skipped") and file.reason and file.path not in reported:
            style = "bold red" if file.status == "failed" else "dim"
            path = showing.quoted(file.path)
            yield [(path, "bold"), (f": {file.status}: ", style), (_clipped(file.reason), "")]


class _Sources:
    """The lines of each file, read when they are needed."""

    def __init__(self, report: Report) -> None:
        self._files: dict[str, FileResult] = {file.path: file for file in report.files}
        self._lines: dict[str, Lines] = {}

    def place(self, item: Item) -> Line:
        """Where a finding is, and its line with the part that it is about underlined."""
        finding = item.finding
        where = f"    {showing.quoted(item.path)}:{finding.line}:{finding.column}: "
        lines = self._lines.get(item.path)
        if lines is None:
            lines = self._lines[item.path] = Lines(self._files[item.path])
        part = lines.excerpt(finding)
        if part is None:
            return [(where, "")]
        return [(where, ""), (part.before, "dim"), (part.marked, "underline"), (part.after, "dim")]


def _quiet(items: tuple[Item, ...], sources: _Sources) -> Iterator[Line]:
    """What no person has to look at: a few places of each message, or where there are many, a line for each code."""
    if len({_shape(item.finding.message) for item in items}) <= _MESSAGES:
        yield from _messages(items, sources, _FEW)
        return
    same: dict[tuple[str, str, str], list[Item]] = {}
    for item in items:
        same.setdefault((item.finding.code, item.finding.name, words.doer(item)), []).append(item)
    for (code, name, doer), found in sorted(same.items(), key=lambda pair: -len(pair[1])):
        in_files = count(len({item.path for item in found}), "file")
        tag = f" [{doer}]" if doer else ""
        text = f" {name}: {count(len(found), 'place')} in {in_files}{tag}"
        yield [(f"  {code}", "bold"), (text, "")]
    yield [("  (--format concise lists every place)", "dim")]


def _messages(items: tuple[Item, ...], sources: _Sources, most: int = _MOST) -> Iterator[Line]:
    """Each message once for all that differ in what they quote alone, with the places that it is about."""
    same: dict[tuple[str, str, str, str], list[Item]] = {}
    for item in items:
        key = (item.finding.code, item.finding.severity, _shape(item.finding.message), words.tags(item))  # fmt: skip
        same.setdefault(key, []).append(item)
    for (code, severity, _, tags), found in same.items():
        more = _also([item.finding.message for item in found])
        yield [
            (f"  {severity} ", _STYLE[severity]),
            (f"{code} ", "bold"),
            (f"{_clipped(found[0].finding.message)} {more}", ""),
            (tags, "dim"),
        ]
        # One more is as short as the line that would represent it.
        shown = len(found) if len(found) <= most + 1 else most
        for item in found[:shown]:
            yield sources.place(item)
        if shown < len(found):
            yield [
                (f"    and {len(found) - shown:,} more places (--format concise lists all)", "dim")
            ]


def _also(messages: Sequence[str]) -> str:
    """What the further messages of a shape quote where the first one quotes something else."""
    first, *others = [_QUOTED.findall(message) for message in dict.fromkeys(messages)]
    places = [at for at, was in enumerate(first) if any(_plain(o[at]) != _plain(was) for o in others)]  # fmt: skip
    named = [" with ".join(f"{o[at][:_NAMED]}…`" if len(o[at]) > _NAMED else o[at] for at in places)
             for o in others if any(_plain(o[at]) != _plain(first[at]) for at in places)]  # fmt: skip
    named = [*{_plain(each): each for each in reversed(named)}.values()][::-1]
    if not named:
        return ""
    more = [f"{len(named) - _FEW:,} more"] if len(named) > _FEW else []
    shown = [*named[:_FEW], *more]
    start = f"{', '.join(shown[:-1])} and " if shown[1:] else ""
    return f"(the same for {start}{shown[-1]}) "


def _plain(quoted: str) -> str:
    """A string of the code is the same in either kind of quotes."""
    return quoted.replace('"', "'")


def _shape(message: str) -> str:
    """A message without what it quotes from the code."""
    return _QUOTED.sub("``", message)


def _dependencies(report: Report) -> Iterator[Line]:
    if not report.dependencies:
        return
    yield [("", "")]
    yield [
        ("Dependencies", "bold underline"),
        (
            " (in brackets: how many files import it; 0: only a requirement; what the training code imports comes first)",
            "dim",
        ),
    ]
    for name, says in words.dependencies(report):
        yield [(f"  {showing.quoted(name)}: ", "bold"), (_clipped(says), "")]


def _by_hand(assessment: Assessment) -> Iterator[Line]:
    summary = assessment.summary
    if not summary.work:
        return
    yield [("By hand: ", "bold underline"), (words.amount(summary), "")]
    shown = [(words.when(found), words.work(found)) for found in summary.work[:_WORKS]]
    width = max(len(takes) for _, (takes, _, _) in shown)
    for when, cells in itertools.groupby(shown, key=lambda each: each[0]):
        yield [(f"  {when}:", "dim")]
        for _, (takes, what, where) in cells:
            yield [(f"    {takes:{width}}  ", "bold"), (f"{where}: {_short(what)}", "")]
    if len(summary.work) > _WORKS:
        yield [(f"    and {count(len(summary.work) - _WORKS, 'more piece')} (--format html lists all)", "dim")]  # fmt: skip


def _short(text: str) -> str:
    """The first part of a message, which says what is there."""
    first = _FIRST.match(text)
    shown = first[0] if first else text
    return (
        shown
        if len(shown) <= _SHORT
        else f"{shown[:_SHORT].rpartition(' ')[0] or shown[:_SHORT]} …"
    )


def _legend(assessment: Assessment) -> Iterator[Line]:
    for number, meant in enumerate(words.legend(assessment)):
        yield [(f"{'' if number else 'Legend:':8}{meant}", "dim")]
    release = assessment.report.target.stack
    yield [(f"        `hpushim explain HPU101` explains a code; with `--rows` it also shows what the messages leave out: cases that differ, and the Gaudi release in which a fact was seen, if not {release}", "dim")]  # fmt: skip


def _clipped(text: str) -> str:
    """What fits, with the end: of a message that begins with a long path it says why."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - _END]}…{text[-_END:]}"
