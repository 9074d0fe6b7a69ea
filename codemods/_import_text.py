"""The text of an import statement after some of its names have moved or gone."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpushim.model import Edit, Span

from ._statements import alone, delete

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


@dataclass(slots=True)
class Plan:
    """What becomes of one statement; ``None`` as a target drops the name."""

    statement: ast.Import | ast.ImportFrom
    targets: dict[ast.alias, str | None] = field(default_factory=dict)
    #: Under which name the file has what moved.
    local: dict[ast.alias, str] = field(default_factory=dict)


def rewrite(module: Module, plan: Plan) -> list[Edit]:
    """The one edit that turns a statement into what the plan says."""
    statement = plan.statement
    stay = [alias for alias in statement.names if alias not in plan.targets]
    lines = _new_lines(plan)
    if not stay and not lines:
        return delete(module, [statement])
    if not stay:
        if _same_shape(plan):
            return _in_place(module, plan)
        return [module.replace(statement, _join(module, statement, lines))]
    text = _without(module, statement, [a for a in statement.names if a in plan.targets])
    return [module.replace(statement, _join(module, statement, [*lines, text]))]


def _new_lines(plan: Plan) -> list[str]:
    sources: dict[str, list[str]] = {}
    for alias, new in plan.targets.items():
        if new is None:
            continue
        base, _, last = new.rpartition(".")
        local = plan.local[alias]
        sources.setdefault(base, []).append(last if last == local else f"{last} as {local}")
    if isinstance(plan.statement, ast.Import):
        return [f"import {new} as {plan.local[a]}" for a, new in plan.targets.items() if new]
    return [f"from {base} import {', '.join(names)}" for base, names in sources.items()]


def _same_shape(plan: Plan) -> bool:
    """Whether all names of a ``from`` import move to one module under their own names."""
    bases = {new.rpartition(".")[0] for new in plan.targets.values() if new}
    return (
        isinstance(plan.statement, ast.ImportFrom)
        and len(bases) == 1
        and all(new and new.rpartition(".")[2] == alias.name for alias, new in plan.targets.items())
    )


def _in_place(module: Module, plan: Plan) -> list[Edit]:
    statement = plan.statement
    assert isinstance(statement, ast.ImportFrom)
    start = module.span(statement).start
    text = module.source(statement)
    old = statement.module or ""
    at = text.index(old, len("from"))
    base = next(iter(plan.targets.values())) or ""
    begin = start + len(text[:at].encode())
    where = Span(begin, begin + len(old.encode()))
    return [module.replace(where, base.rpartition(".")[0])]


def _join(module: Module, statement: ast.stmt, lines: list[str]) -> str:
    if alone(module, statement):
        return f"{module.newline}{module.indent(statement)}".join(lines)
    return "; ".join(lines)


def _without(module: Module, statement: ast.Import | ast.ImportFrom, gone: list[ast.alias]) -> str:
    """The text of ``statement`` without some of its names."""
    base = module.span(statement).start
    data = bytearray(module.source(statement).encode())
    names = statement.names
    for place in range(len(names) - 1, -1, -1):
        if names[place] not in gone:
            continue
        span = module.span(names[place])
        line = module.line_span(names[place].lineno)
        stripped = module.source(line).split("#")[0].strip().rstrip(",").strip()
        if stripped == module.source(span) and line.start >= base and line.end <= base + len(data):
            begin, end = line.start, line.end
        elif all(later in gone for later in names[place + 1 :]) and place:
            begin, end = module.span(names[place - 1]).end, span.end
        elif place + 1 < len(names):
            begin, end = span.start, module.span(names[place + 1]).start
        else:
            begin, end = span.start, span.end
        end = min(end, base + len(data))
        del data[begin - base : end - base]
    return data.decode()
