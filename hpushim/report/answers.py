"""The answer to a question about one name, for people and programs: its row, its operators, or that nothing is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hpushim.matrix import Matrix, Row, Verdict, vendor_names
from hpushim.matrix.lookup import Answer
from hpushim.matrix.readings import Reading
from hpushim.model import Target
from hpushim.report import rows

#: What was read at the sources of a verdict's row.
Readings = Callable[[Verdict], Sequence[Reading]]

_SUPPORT = {
    "native": "has a kernel on Gaudi",
    "composite": "torch decomposes it before it reaches the device",
    "default": "made of other operators, which run on the device",
    "fallback": "runs on the CPU, with a copy there and back",
    "none": "raises an error on Gaudi",
    "custom": "exists on Gaudi only",
}
_TABLE = "1.19"  # the release that the operator table states
_MANY = 12


def text(
    matrix: Matrix, answer: Answer, target: Target, readings: Readings, width: int | None
) -> str:
    """All that is known of a name, as text; empty where nothing is."""
    parts = []
    if answer.verdict:
        parts.append(rows.one(matrix, answer.verdict, target, readings(answer.verdict)))
    if answer.operators:
        parts.append("".join(f"{line}\n" for line in _operators(matrix, answer, target)))
    if answer.vendor and not answer.verdict:
        parts.append(
            f"{answer.name}\n  is in Intel's package, release {vendor_names.RELEASE}; "
            "the matrix has no row for it\n"
        )
    if answer.leads_here:
        leading = [matrix.assess(row, target) for row in answer.leads_here]
        parts.append(f"leads to {answer.name}:\n{rows.table(leading, width)}")
    return "\n".join(parts)


def unknown(matrix: Matrix, answer: Answer, target: Target, near: Sequence[str]) -> str:
    """That nothing is known of a name, and what to ask instead: ``near`` are names that resemble it."""
    lines = [
        f"{answer.name}: unknown: no matrix row, operator or name of Intel's package has this name"
    ]
    if near:
        lines.append(f"  did you mean: {', '.join(near)}")
    if answer.above:
        above = matrix.assess(answer.above, target)
        arrow = f" → {above.target}" if above.target else ""
        lines.append(f"  its parent, {above.name}, is {above.status}{arrow}: {above.note}")
    inside = [row.name for row in answer.holding if row.name not in near]
    if inside:
        more = f" and {len(inside) - _MANY} more" if len(inside) > _MANY else ""
        lines.append(f"  rows whose names contain it: {', '.join(inside[:_MANY])}{more}")
    if len(lines) == 1:
        lines.append(
            '  `hpushim matrix show` lists what is known; a pattern such as "torch.cuda.mem*" searches'
        )
    return "\n".join(lines)


def data(
    matrix: Matrix, answer: Answer, target: Target, readings: Readings, near: Sequence[str]
) -> dict[str, Any]:
    """The same as plain data, for JSON."""
    found = [answer.verdict] if answer.verdict else []
    return {
        "query": answer.name,
        "target": {"gaudi": target.gaudi, "stack": target.stack, "mode": target.mode},
        "known": answer.known,
        "found": [rows.data(matrix, verdict, readings(verdict)) for verdict in found],
        "operators": [_operator(matrix, name, target) for name in answer.operators],
        "vendor": answer.vendor,
        "leads_here": [_leading(matrix, row, target, readings) for row in answer.leads_here],
        "near": list(near),
    }


def _leading(matrix: Matrix, row: Row, target: Target, readings: Readings) -> dict[str, Any]:
    verdict = matrix.assess(row, target)
    return rows.data(matrix, verdict, readings(verdict))


def _operator(matrix: Matrix, name: str, target: Target) -> dict[str, Any]:
    table = matrix.operators
    dtypes = table.dtypes(name, target.gaudi)
    return {
        "name": name,
        "support": table.support[name],
        "release": _TABLE,
        "dtypes": {key: sorted(value) for key, value in dtypes.items()} if dtypes else None,
        "notes": list(table.notes.get(name, ())),
    }


def _operators(matrix: Matrix, answer: Answer, target: Target) -> Iterator[str]:
    """The overloads by what becomes of them, with dtypes and remarks."""
    table = matrix.operators
    title = matrix.generations[target.gaudi].title
    yield f"{answer.name}  (an operator; the matrix has no row for it, the operator table of release {_TABLE} has it)"
    by_support: dict[str, list[str]] = {}
    for name in answer.operators:
        by_support.setdefault(table.support[name], []).append(name)
    for support, meaning in _SUPPORT.items():
        if names := by_support.get(support):
            yield f"  {support}: {meaning}: {', '.join(names)}"
    names_of: dict[str, list[str]] = {}
    for name in answer.operators:
        for argument, dtypes in (table.dtypes(name, target.gaudi) or {}).items():
            which = "" if argument == "*" else f" of {argument}"
            line = f"dtypes{which} with a kernel on {title}, others run on the CPU: {' '.join(sorted(dtypes))}"
            names_of.setdefault(line, []).append(name)
        for note in table.notes.get(name, ()):
            names_of.setdefault(note, []).append(name)
    for line, names in names_of.items():
        yield f"  {line}" + (
            "" if len(names) == len(answer.operators) else f" ({', '.join(names)})"
        )
    for label, url in matrix.cited(table.source):
        yield f"  source: {label}" + (f" <{url}>" if url and url != label else "")
