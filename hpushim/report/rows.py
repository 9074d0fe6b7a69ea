"""Rows of the compatibility matrix for people and programs: one row, lists, counts, changes, the page."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import msgspec

from hpushim import showing
from hpushim.matrix import Limit, Matrix, Row, Verdict
from hpushim.matrix.readings import Reading
from hpushim.matrix.schema import Area
from hpushim.matrix.sources import Found, Hit
from hpushim.matrix.summary import Change, Counts, counts
from hpushim.matrix.written import written, written_for
from hpushim.model import Target
from hpushim.report.markup import code, prose

_BASIS = {
    "docs": "a document states it",
    "code": "read in code",
    "report": "seen in a published log or issue",
    "emulator": "run on the emulated HPU only",
    "torch": "run on a stock torch, without Gaudi",
    "gaudi1": "run on Gaudi 1",
    "gaudi2": "run on Gaudi 2",
    "gaudi3": "run on Gaudi 3",
    "none": "reasoning only",
}
_RUNTIME = {
    "net": "handles it through its device hooks",
    "alias": "calls the name on Gaudi",
    "noop": "accepts the call and does nothing",
    "constant": "answers {value}",
    "raise": "raises an error with this note",
    "patch": "replaces it",
    "block": "refuses the import with this note",
    "rewrite": "rewrites it under `hpushim run`",
}


def data(matrix: Matrix, verdict: Verdict, readings: Sequence[Reading] = ()) -> dict[str, Any]:
    """A verdict as plain data, for JSON: the row, what applies to the target, resolved sources, what was read there."""
    row = verdict.row
    found: dict[str, Any] = {
        "name": verdict.name,
        "status": verdict.status,
        "target": verdict.target,
        "note": verdict.note,
        "confidence": verdict.confidence,
        "inherited": verdict.inherited,
        "limits": [_limit(limit) for limit in verdict.limits],
        "row": None,
    }
    if row is not None:
        found["row"] = msgspec.to_builtins(row) | {
            "basis": row.basis,
            "limits": [_limit(limit) for limit in row.limits],
            "source": [
                {"title": title, "url": url} | _read_there(citation, readings)
                for citation, (title, url) in zip(row.source, matrix.citations(row), strict=True)
            ],
            "origin": row.origin or "hpushim",
        }
    return found


def _read_there(citation: str, readings: Sequence[Reading]) -> dict[str, Any]:
    """What was read at a citation, and when."""
    for item in readings:
        if item.at == citation:
            return {"says": item.says, "read": item.read.isoformat(), "seen": item.seen}
    return {}


_STATES = {"moved": "moved to {}", "unprinted": "no fingerprint"}


def places_text(found: Sequence[Found]) -> str:
    """The cited places that are not as they were read, one a line, and the counts."""
    lines = [
        f"{item.row}: {item.reading.at}: " + _STATES.get(item.state, item.state).format(item.now)
        for item in found
        if item.state in ("moved", "changed", "gone", "unprinted")
    ]
    states = Counter(item.state for item in found)
    there = {item.repository for item in found if item.state not in ("absent", "document")}
    away = sorted({item.repository for item in found if item.state == "absent"} - there)
    compared = sum(states[state] for state in ("same", "moved", "changed", "gone", "unprinted"))
    lines.append(
        f"{compared} places in {len(there)} repositories: {states['same']} as they were read, {states['moved']} moved, "
        f"{states['changed']} changed, {states['gone']} gone, {states['unprinted']} without a fingerprint"
    )
    lines.append(
        f"not compared: {states['document']} places in documents or whole repositories, {states['absent']} in "
        f"repositories that are not there" + (f" ({', '.join(away)})" if away else "")
    )
    return "\n".join(lines) + "\n"


def searches_text(hits: Sequence[Hit], done: int) -> str:
    """The searches that find something now, one a line, and how many were done again."""
    lines = [f"{hit.row}: {hit.words!r} is found now in {hit.place}: {hit.first}" for hit in hits]
    lines.append(f"{done} searches without a result done again: {len(hits)} find something now")
    return "\n".join(lines) + "\n"


def one(matrix: Matrix, verdict: Verdict, target: Target, readings: Sequence[Reading] = ()) -> str:
    """All about one name, as text."""
    row = verdict.row
    if row is None:
        return f"{verdict.name}: unknown: {verdict.note}\n"
    arrow = f"  →  {verdict.target}" if verdict.target else ""
    if verdict.inherited:
        arrow = f"  (of the whole {row.kind} {row.name})"
    release = matrix.release(target.stack)
    title = matrix.generations[target.gaudi].title
    lines = [
        f"{verdict.name}{arrow}",
        f"  {verdict.status} on {title}, release {release.stack if release else target.stack}, "
        f"{matrix.mode(target)} mode ({_rests_on(row)})",
        f"  {verdict.note}",
    ]
    for limit in row.limits:
        mark = "applies" if limit in verdict.limits else "elsewhere"
        status = f"{limit.status}: " if limit.status else ""
        lines.append(f"  {mark}: {scope(limit)}: {status}{limit.text}")
    if not verdict.inherited:
        lines += _handling(matrix, row, verdict.name)
    for citation, (label, url) in zip(row.source, matrix.citations(row), strict=True):
        lines.append(f"  source: {label}" + (f" <{url}>" if url and url != label else ""))
        if there := _read_there(citation, readings):
            again = "" if there["seen"] == "opened" else ", not opened again since"
            lines.append(f"    says: {there['says']} (read {there['read']}{again})")
    lines.append(f"  row: {row.kind} {row.name}, {row.area}, from {row.origin or 'hpushim'}")
    return "\n".join(lines) + "\n"


def _handling(matrix: Matrix, row: Row, name: str) -> Iterator[str]:
    """What becomes of arguments, what the shim does, which rule finds it, under which other names."""
    for argument in row.args:
        value = f" {argument.value}" if argument.value else ""
        yield f"  argument {argument.name}: {argument.change}{value}"
    if unseen := matrix.unwitnessed(row):
        yield f"  no known run on a device: {', '.join(unseen)}"
    for text in written_for(row):
        if at := matrix.witness(text):
            yield f"  run on a device: {text}: {next(matrix.cited(at))[0]}"
    for search in row.searched:
        yield f"  searched without a result: {search.words} in {', '.join(search.places)}"
    if row.runtime != "none":
        yield f"  the shim {_RUNTIME[row.runtime].format(value=row.value)}"
    if row.rule:
        yield f"  found in source by {row.rule}: see `hpushim explain {row.rule}`"
    if others := [other for other in _public(row) if other != name]:
        yield f"  also: {', '.join(others)}"


def _public(row: Row) -> list[str]:
    """The row's names without those that are torch's own business."""
    return [row.name] + [name for name in row.also if "._" not in name]


def _rests_on(row: Row) -> str:
    return "inferred, stated nowhere" if row.confidence == "inferred" else _BASIS[row.basis]


def table(verdicts: Iterable[Verdict], width: int | None = None) -> str:
    """Many verdicts, one a line, as text."""
    return _drawn(
        ("name", "status", "on Gaudi", "note"),
        [(v.name, _marked(v), v.target, v.note) for v in verdicts],
        width,
    )


def markdown(verdicts: Iterable[Verdict]) -> str:
    """Many verdicts as a Markdown table."""
    return _pipes(
        ("Name", "Status", "On Gaudi", "Note"),
        [(code(v.name), _marked(v), code(v.target), prose(v.note)) for v in verdicts],
    )


def counts_text(found: Counts, as_markdown: bool = False, width: int | None = None) -> str:
    """Counts by area and status, with totals."""
    statuses = tuple(found.statuses)
    body = [
        (area, *(str(line.get(status, "")) for status in statuses), str(sum(line.values())))
        for area, line in found.areas.items()
    ]
    body.append(("all", *(str(found.statuses[s]) for s in statuses), str(found.rows)))
    head = ("area", *statuses, "rows")
    shape = _pipes(head, map(_cells_of_prose, body)) if as_markdown else _drawn(head, body, width)
    sure = ", ".join(f"{count} {name}" for name, count in found.confidences.items())
    acts = ", ".join(f"{count} {name}" for name, count in found.runtimes.items())
    operators = ", ".join(f"{count} {name}" for name, count in found.operators.items())
    lines = [
        f"{found.rows} rows answer for {found.names} names and state {found.facts} facts; "
        f"{found.without_source} without a source.",
        f"Confidence: {sure}.",
        f"Run time: {acts}.",
        f"Operators: {sum(found.operators.values())} overloads: {operators}.",
    ]
    lines += [f"From {origin}: {count} rows." for origin, count in found.origins.items()]
    return shape + "\n" + "\n".join(lines) + "\n"


def changes_text(
    found: Sequence[Change], as_markdown: bool = False, width: int | None = None
) -> str:
    """What differs between two releases."""
    body = [
        (c.name, c.before if c.before == c.after else f"{c.before} → {c.after}", c.text)
        for c in found
    ]
    head = ("name", "status", "what")
    if as_markdown:
        return _pipes(head, map(_cells_of_prose, body))
    return _drawn(head, body, width)


def page(matrix: Matrix) -> str:
    """The whole matrix as one Markdown page, for people who read rather than query."""
    found = counts(matrix)
    parts = [
        "# What Gaudi does with CUDA-side names",
        "",
        "Generated from `compat_matrix.toml` by `hpushim matrix show --markdown`; change that file, not this one. "
        "Nothing here was run on a Gaudi: each row says what it rests on, and `inferred` and `unknown` mean what they say. "
        "Limits by generation, mode and release are under the note; `hpushim api NAME` gives sources and a verdict for your target.",
        "",
        counts_text(found, as_markdown=True),
    ]
    for area in get_args(Area):
        rows = [row for row in matrix.rows if row.area == area]
        if rows:
            parts += [f"## {area}", "", _pipes(_HEAD, [_cells(matrix, row) for row in rows])]
    return "\n".join([*parts, *_witnesses(matrix), *_searches(matrix)])


_HEAD = ("Name", "Status", "On Gaudi", "Note", "Source", "Run on a device", "Rule")


def _witnesses(matrix: Matrix) -> Iterator[str]:
    """Of how many written names public code runs on a device, by where that is, and the names of which none does."""
    kinds = Counter(_run_by(item.source) for item in matrix.seen if item.source for _ in item.names)
    unseen = {name: rows for name, rows in written(matrix.rows).items() if not matrix.witness(name)}
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    yield "## Names that nobody is known to have run on a device"
    yield ""
    yield (
        f"Of the other names that the shim or a rewrite writes, public code runs them: {counted}. "
        "A rewrite that writes one of these is unsafe, and its finding says so.\n"
    )
    body = [(code(name), ", ".join(map(code, rows))) for name, rows in unseen.items()]
    yield _pipes(("Written", "For"), body)


def _searches(matrix: Matrix) -> Iterator[str]:
    """The searches behind rows that say that nothing was found."""
    body = [
        (code(row.name), code(search.words), ", ".join(search.places))
        for row in matrix.rows
        for search in row.searched
    ]
    yield "## Searches that found nothing\n"
    yield (
        "Rows that say that nothing was found rest on these searches of code and text; "
        "`hpushim matrix check --sources FOLDER` repeats them.\n"
    )
    yield _pipes(("Name", "Words", "Searched"), body)


_RUN_BY = {
    "bridge:tests": "test by Intel",
    "bridge:": "Intel's code",
    "models:": "example by Intel",
    "optimum:": "Optimum for Intel Gaudi",
    "vllm-gaudi:": "vLLM for Gaudi",
    "lightning-habana:": "test of lightning-habana",
    "accelerate:": "Accelerate's job on Gaudi 3",
    "deepspeed:": "DeepSpeed",
}


def _run_by(source: Sequence[str]) -> str:
    """Who runs it, by the first citation."""
    return next((who for start, who in _RUN_BY.items() if source[0].startswith(start)), "report")


def scope(limit: Limit) -> str:
    """Where a limit holds, in words: ``gaudi1; lazy mode; up to 1.20``."""
    parts = [" and ".join(limit.gaudi)] if limit.gaudi else []
    if limit.mode:
        parts.append(f"{' and '.join(limit.mode)} mode")
    of = f"{limit.package} " if limit.package else ""
    if limit.since and limit.until:
        parts.append(f"{of}{limit.since} to {limit.until}")
    elif limit.since:
        parts.append(f"{of}{limit.since} and later")
    elif limit.until:
        parts.append(f"{of}up to {limit.until}")
    return "; ".join(parts) or "everywhere"


def _cells(matrix: Matrix, row: Row) -> tuple[str, ...]:
    names = "<br>".join(code(name) for name in _public(row))
    note = prose(row.note)
    for limit in row.limits:
        status = f" {limit.status}." if limit.status else ""
        note += f"<br>*{scope(limit)}:*{status} {prose(limit.text)}"
    return (
        names,
        row.status,
        code(row.target),
        note,
        _rests_on(row),
        _seen(matrix, row),
        row.rule,
    )


def _seen(matrix: Matrix, row: Row) -> str:
    """Who runs what is written for a row; ``unknown`` where one of the names has no witness."""
    names = written_for(row)
    if matrix.unwitnessed(row):
        return "unknown"
    return ", ".join(dict.fromkeys(_run_by(at) for name in names if (at := matrix.witness(name))))


def _marked(verdict: Verdict) -> str:
    """The status, never without the word when it is inferred."""
    return f"{verdict.status} (inferred)" if verdict.confidence == "inferred" else verdict.status


def _limit(limit: Limit) -> dict[str, Any]:
    full: dict[str, Any] = msgspec.to_builtins(limit)
    return {key: value for key, value in full.items() if value}


def _pipes(head: tuple[str, ...], body: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells_of_prose(line: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(prose, line))


def _drawn(head: tuple[str, ...], body: Iterable[tuple[str, ...]], width: int | None) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="")
    for title in head:
        drawn.add_column(title, overflow="fold")
    for line in body:
        drawn.add_row(*(Text(showing.one_line(cell)) for cell in line))
    out = io.StringIO()
    Console(file=out, width=width or 160).print(drawn)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())
