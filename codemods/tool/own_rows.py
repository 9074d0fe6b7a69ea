"""Names of a project's own rows: a company's wrappers and libraries, from ``[tool.hpushim] matrix``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix, Safety, Severity, Span

from ._torch import dotted

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module
    from hpushim.matrix import Row, Verdict

_SEVERITY: dict[str, Severity] = {"unsupported": "error", "unknown": "info", "noop": "info"}
_SAFETY: dict[str, Safety] = {"renamed": "safe", "changed": "unsafe"}


class OwnRow(Rule):
    """A use of a name that only the project's own rows know."""

    code = "HPU021"
    name = "row-of-the-project"
    markers = ()

    @classmethod
    def applies(cls, module: Module) -> bool:
        """Only where somebody added rows of their own."""
        return bool(module.matrix.own)

    def on_Attribute(self, module: Module, node: ast.Attribute) -> Iterator[Finding]:
        yield from self._use(module, node)

    def on_Name(self, module: Module, node: ast.Name) -> Iterator[Finding]:
        if isinstance(node.ctx, ast.Load):
            yield from self._use(module, node)

    def on_ImportFrom(self, module: Module, node: ast.ImportFrom) -> Iterator[Finding]:
        if not node.module or node.level:
            return
        for alias in node.names:
            row = _own(module, f"{node.module}.{alias.name}")
            if row is not None:
                start = module.span(alias).start
                yield from self._tell(module, alias, row, Span(start, start + len(alias.name)))

    def _use(self, module: Module, node: ast.Attribute | ast.Name) -> Iterator[Finding]:
        row = _own(module, dotted(module, node))
        if row is None:
            return
        end = module.span(node).end
        last = row.name.rpartition(".")[2]
        written = node.attr if isinstance(node, ast.Attribute) else node.id
        # A name under an alias of the user's own keeps it; its import changes.
        place = Span(end - len(written), end) if written == last else None
        yield from self._tell(module, node, row, place)

    def _tell(
        self, module: Module, where: ast.AST, row: Row, place: Span | None
    ) -> Iterator[Finding]:
        verdict = module.matrix.judge(row, module.target)
        if verdict.status == "native":
            return
        fix = _fix(module, verdict, row, place)
        if fix is None and _fixable(verdict, row):
            return
        yield self.finding(
            module,
            where,
            f"`{row.name}`: {verdict.note.rstrip('.')}",
            fix=fix,
            row=row.name,
            severity=_SEVERITY.get(verdict.status, "warning"),
        )


def _own(module: Module, name: str | None) -> Row | None:
    row = module.matrix.row(name, "python") if name and "." in name else None
    # Names of torch have rules of their own, which ask the same rows.
    return row if row is not None and row.origin and not row.name.startswith("torch.") else None


def _fixable(verdict: Verdict, row: Row) -> bool:
    """Is the target a neighbour of the name, and the call the same?"""
    return (
        verdict.status in _SAFETY
        and not row.args
        and row.name.isascii()
        and verdict.target.rpartition(".")[0] == row.name.rpartition(".")[0]
    )


def _fix(module: Module, verdict: Verdict, row: Row, place: Span | None) -> Fix | None:
    if place is None or not _fixable(verdict, row):
        return None
    new = verdict.target.rpartition(".")[2]
    edit = module.replace(place, new)
    return Fix(f"use {new}", _SAFETY[verdict.status], (edit,), f"own row {row.name}")
