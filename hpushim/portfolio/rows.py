"""One row for each repository, from its report, and what blocks most of them; as JSON with a schema, and as CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from hpushim.errors import HpushimError
from hpushim.model import Dependency, Severity, Target
from hpushim.report.assessment import LineCounts, Trouble
from hpushim.report.csv import cell
from hpushim.report.json import dumps
from hpushim.report.verdict import NEED_CUDA, Verdict
from hpushim.report.work import REQUIRED

SCHEMA_VERSION = 1
#: ``failed``: the repository has no report.
RowVerdict = Verdict | Literal["failed"]


class Blocker(msgspec.Struct, frozen=True):
    """Something that keeps a repository from training on Gaudi: a package, or a finding's code and what the matrix calls it."""

    what: str
    places: int


class Row(msgspec.Struct, frozen=True):
    """A repository. ``least`` and ``most`` are minutes by hand, ``share`` per cent of the ``lines`` of CUDA code that need none.

    ``unread`` counts files that could not be read; ``page`` is where its own report is. Where it has no report, ``verdict`` is
    ``failed``, ``sentence`` says why, and the rest is empty.
    """

    name: str
    verdict: RowVerdict
    sentence: str
    least: int = 0
    most: int = 0
    lines: int = 0
    share: int = 100
    files: int = 0
    unread: int = 0
    blockers: tuple[Blocker, ...] = ()
    not_assessed: tuple[str, ...] = ()
    page: str = ""


class Shared(msgspec.Struct, frozen=True):
    """A blocker with the repositories that have it."""

    what: str
    places: int
    repositories: tuple[str, ...]


class Portfolio(msgspec.Struct, frozen=True):
    """All repositories, in the order of their names, and what blocks most of them first."""

    schema_version: int
    tool: str
    target: Target
    verdicts: dict[RowVerdict, int]
    least: int
    most: int
    blockers: tuple[Shared, ...]
    repositories: tuple[Row, ...]


class _Finding(msgspec.Struct):
    code: str
    name: str
    severity: Severity
    line: int
    row: str | None
    trouble: Trouble
    handling: str


class _File(msgspec.Struct):
    path: str
    findings: tuple[_Finding, ...]


class _Work(msgspec.Struct):
    places: tuple[str, ...]
    required: bool


class _Summary(msgspec.Struct):
    verdict: Verdict
    sentence: str
    least: int
    most: int
    lines: LineCounts
    files: int
    failed: int
    work: tuple[_Work, ...]


class _Document(msgspec.Struct):
    """What is read of a report's JSON; see ``report.schema.json``."""

    tool: str
    target: Target
    summary: _Summary
    dependencies: tuple[Dependency, ...]
    files: tuple[_File, ...]


class Read(msgspec.Struct, frozen=True):
    """A row, and for what and by what its report was made."""

    row: Row
    target: Target
    tool: str


def read(name: str, data: bytes, page: str) -> Read:
    """The row of a report's JSON. Raises HpushimError for another file."""
    try:
        found = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HpushimError(f"not a report of `hpushim report --format json`: {error}") from None
    summary = found.summary
    row = Row(
        name=name,
        verdict=summary.verdict,
        sentence=summary.sentence,
        least=summary.least,
        most=summary.most,
        lines=summary.lines.total,
        share=summary.lines.share,
        files=summary.files,
        unread=summary.failed,
        blockers=_blockers(found),
        not_assessed=tuple(each.name for each in found.dependencies if each.kind == "not assessed" and each.files and not each.aside),
        page=page,
    )  # fmt: skip
    return Read(row, found.target, found.tool)


def without(name: str, why: str) -> Row:
    """The row of a repository that has no report."""
    return Row(name, "failed", why)


def _blockers(found: _Document) -> tuple[Blocker, ...]:
    """What has to be done before it trains, most places first: packages that need CUDA, and findings left to a person."""
    places: Counter[str] = Counter()
    for each in found.dependencies:
        if each.kind in NEED_CUDA and each.required:
            places[f"{each.name}: {each.kind}"] += each.files
    required = {place for work in found.summary.work if work.required for place in work.places}
    for file in found.files:
        for finding in file.findings:
            by_hand = finding.handling == "by-hand" and finding.trouble in REQUIRED
            if by_hand and f"{file.path}:{finding.line}" in required:
                of = f": {finding.row}" if finding.row else ""
                places[f"{finding.code} {finding.name}{of}"] += 1
    ordered = sorted(places.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Blocker(what, number) for what, number in ordered)


def gather(reads: Iterable[Read], failed: Iterable[Row], target: Target, tool: str) -> Portfolio:
    """The portfolio of all rows. Raises HpushimError where reports were made for different targets, which no total can hold."""
    reads = list(reads)
    found = one_target([each.target for each in reads]) or target
    rows = sorted([*(each.row for each in reads), *failed], key=lambda row: row.name)
    verdicts = Counter(row.verdict for row in rows)
    return Portfolio(
        SCHEMA_VERSION,
        tool,
        found,
        dict(sorted(verdicts.items())),
        sum(row.least for row in rows),
        sum(row.most for row in rows),
        _shared(rows),
        tuple(rows),
    )


def one_target(targets: Iterable[Target]) -> Target | None:
    """The target of all reports; None of no report. Raises HpushimError for several, over which nothing can be totalled."""
    found = list(dict.fromkeys(targets))
    if len(found) > 1:
        shown = "; ".join(f"{t.gaudi}, release {t.stack}, mode {t.mode}, style {t.style}" for t in found)  # fmt: skip
        raise HpushimError(f"reports for different targets have no total: {shown}; give --target, --stack, --mode and --style for all")  # fmt: skip
    return found[0] if found else None


def _shared(rows: Sequence[Row]) -> tuple[Shared, ...]:
    where: defaultdict[str, list[str]] = defaultdict(list)
    places: Counter[str] = Counter()
    for row in rows:
        for blocker in row.blockers:
            where[blocker.what].append(row.name)
            places[blocker.what] += blocker.places
    order = sorted(where, key=lambda what: (-len(where[what]), -places[what], what))
    return tuple(Shared(what, places[what], tuple(where[what])) for what in order)


def schema() -> dict[str, Any]:
    """The JSON schema of the portfolio, which ships as ``portfolio.schema.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hpushim portfolio",
        **msgspec.json.schema(Portfolio),
    }


def render_json(portfolio: Portfolio) -> str:
    return dumps(portfolio)


_HEAD = ("repository", "verdict", "least minutes", "most minutes", "CUDA lines", "percent without manual work", "files", "files not read",
         "blockers", "dependencies not assessed", "report", "summary")  # fmt: skip


def render_csv(portfolio: Portfolio) -> str:
    """A head and a row for each repository."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEAD)
    for row in portfolio.repositories:
        values = (row.name, row.verdict, row.least, row.most, row.lines, row.share, row.files, row.unread, "; ".join(b.what for b in row.blockers),
                  "; ".join(row.not_assessed), row.page, row.sentence)  # fmt: skip
        writer.writerow([cell(value) for value in values])
    return out.getvalue()


def names(paths: Sequence[Path]) -> list[str]:
    """A name for each repository: its folder's, with as many of the folders above it as distinguish it from the others."""
    parts = [path.parts[1:] if path.is_absolute() else path.parts for path in paths]
    found = []
    for mine in parts:
        depth = 1
        while depth < len(mine) and sum(other[-depth:] == mine[-depth:] for other in parts) > 1:
            depth += 1
        found.append("+".join(mine[-depth:]) or "root")
    return found
