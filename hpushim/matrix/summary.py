"""The matrix as a whole: counts, what changes between two releases, what a shipped row must have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args

import msgspec

from hpushim.matrix.query import Matrix
from hpushim.matrix.schema import Area, Confidence, MatrixFile, Row, Status
from hpushim.model import Target

#: A note that says so rests on searches.
_NOTHING = re.compile(
    r"\b(no|nothing)\b[^.;:]*\bfound\b|\bno mention of\b|\bno (?:other )?source (?:shows|reports)\b"
    r"|\bon Gaudi is unknown\b|\bnot known to have run\b|\bwhat reads it is not public\b",
    re.IGNORECASE,
)


class Counts(msgspec.Struct, frozen=True):
    """How many rows there are, of what."""

    rows: int
    names: int
    statuses: dict[str, int]
    confidences: dict[str, int]
    areas: dict[str, dict[str, int]]
    kinds: dict[str, int]
    runtimes: dict[str, int]
    facts: int
    without_source: int
    operators: dict[str, int]
    origins: dict[str, int]


class Change(msgspec.Struct, frozen=True):
    """One name whose verdict differs between two releases."""

    name: str
    kind: str
    before: Status
    after: Status
    text: str


def counts(matrix: Matrix) -> Counts:
    """Counts by status, confidence, area, kind, run-time action and origin."""
    rows = matrix.rows
    areas: dict[str, dict[str, int]] = {}
    for area in get_args(Area):
        found = Counter(row.status for row in rows if row.area == area)
        if found:
            areas[area] = _ordered(found, get_args(Status))
    return Counts(
        rows=len(rows),
        names=sum(len(row.names) for row in rows),
        statuses=_ordered(Counter(row.status for row in rows), get_args(Status)),
        confidences=_ordered(Counter(row.confidence for row in rows), get_args(Confidence)),
        areas=areas,
        kinds=dict(Counter(row.kind for row in rows).most_common()),
        runtimes=dict(Counter(row.runtime for row in rows).most_common()),
        facts=len({fact for row in rows for fact in row.facts}),
        without_source=sum(not row.source for row in rows if not row.origin),
        operators=dict(Counter(matrix.operators.support.values()).most_common()),
        origins=dict(Counter(row.origin for row in rows if row.origin)),
    )


def changes(matrix: Matrix, before: Target, after: Target) -> tuple[Change, ...]:
    """The rows whose status, or whose limits that apply, differ between two targets."""
    found = []
    for row in matrix.rows:
        one, two = matrix.assess(row, before), matrix.assess(row, after)
        if one.status == two.status and one.limits == two.limits:
            continue
        added = [limit.text for limit in two.limits if limit not in one.limits]
        gone = [f"no longer: {limit.text}" for limit in one.limits if limit not in two.limits]
        text = " ".join(part for part in (*added, *gone) if part)
        found.append(Change(row.name, row.kind, one.status, two.status, text))
    return tuple(found)


def flaws(matrix: Matrix, codes: Collection[str] | None = None) -> Iterator[tuple[Row, str, str]]:
    """Row, field and complaint for what a shipped row must have beyond the schema.

    ``codes`` are the codes that rules give; without them the column ``rule`` is not looked at.
    """
    for row in matrix.rows:
        if codes is not None and row.rule and row.rule not in codes:
            yield (
                row,
                "rule",
                f"no rule gives {row.rule}: write the rule, correct the code, or leave it out",
            )
        if row.origin:
            continue
        if not row.source:
            yield row, "source", "missing: add where the statement can be read"
        if row.confidence != "inferred" and not row.source:
            yield row, "confidence", f"{row.confidence} needs a source: add one, or say inferred"
        if not row.note.endswith((".", "?", ")")):
            yield row, "note", "is not a sentence: end it with a full stop"
        if row.status == "renamed" and not row.target:
            yield row, "target", "missing: a renamed row names what to use"
        yield from _search_flaws(matrix, row)


def _search_flaws(matrix: Matrix, row: Row) -> Iterator[tuple[Row, str, str]]:
    """What lacks of the searches behind a note that says that nothing was found."""
    if _NOTHING.search(row.note) and not row.searched:
        yield (
            row,
            "searched",
            "missing: the note says that nothing was found; add what was searched",
        )
    for search in row.searched:
        try:
            re.compile(search.words)
        except re.error as error:
            yield row, "searched", f"{search.words!r} is no regular expression: {error}"
        for place in search.places:
            if place not in matrix.sources and place.count("/") != 1:
                yield row, "searched", f"{place!r} is no key of [sources] and no owner/name"
    seen = {place for search in row.searched for place in search.places}
    seen |= {citation.partition(":")[0] for citation in row.source}
    own = any("/" in place for place in seen)  # the note is about that repository
    for key, source in matrix.sources.items():
        if row.searched and source.searched and key not in seen and not own:
            yield row, "searched", f"{key} was not searched, and the row does not cite it"


def json_schema() -> bytes:
    """The JSON schema of the file, for editors; ends in a newline."""
    schema = msgspec.json.schema(MatrixFile)
    schema["title"] = "hpushim compatibility matrix"
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    for table in schema["$defs"].values():
        # Python 3.13 strips the indentation of docstrings, older ones do not.
        if "description" in table:
            table["description"] = " ".join(table["description"].split())
    row = schema["$defs"]["Row"]
    row["properties"].pop("origin")  # the loader's, not a writer's
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"


def _ordered(found: Mapping[Any, int], order: tuple[str, ...]) -> dict[str, int]:
    return {key: found[key] for key in order if key in found}
