"""Names of a project's own rows: a company's wrappers and libraries, from ``[tool.hpushim] matrix``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.references import find
from hpushim.engine.rules.rule import Code, Module, Rule, Strength, Wants, Yield
from hpushim.matrix import Row, Verdict
from hpushim.model import Safety

from ..analysis.names import word
from ..bases.row_argument import SEVERITY, by_row
from ..edits.arguments import attribute

_SAFETY: dict[str, Safety] = {"renamed": "safe", "changed": "unsafe"}


class OwnRow(Rule):
    """A use of a name that only the project's own rows know."""

    HPU021 = Code(
        "row-of-the-project",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower=by_row("warning", "note"),
    )
    #: Any file that is read: which words these are, only the project knows.
    also = Wants(texts=("",))
    strength = Strength.FIRM

    def on_module(self, module: Module) -> Yield:
        rows = _own_rows(module)
        for node, name in find(module, *rows) if rows else ():
            yield from self._use(module, node, rows[name])
        for alias, name in _imported(module) if rows else ():
            if name in rows:
                yield from self._use(module, alias, rows[name])

    def _use(self, module: Module, node: ast.expr | ast.alias, row: Row) -> Yield:
        verdict = module.matrix.assess(row, module.target)
        if verdict.status == "native":
            return
        fix = None
        if _is_renamed(verdict, row):
            if _written(node) != row.name.rpartition(".")[2]:
                return  # it keeps an alias of the user's own; its import changes
            new = verdict.target.rpartition(".")[2]
            change = (_renamed(node, new),)
            fix = Rewrite(f"use {new}", _SAFETY[verdict.status], change, f"own row {row.name}")
        yield self.finding(
            node,
            f"`{row.name}`: {verdict.note.rstrip('.')}",
            fix=fix,
            row=row.name,
            severity=SEVERITY[verdict.status],
        )


def _own_rows(module: Module) -> dict[str, Row]:
    """The project's own rows by name; those on names of torch go to rules that request the same rows."""
    found: dict[str, Row] = {}
    if not module.matrix.own:
        return found
    names = {name for row in module.matrix.rows if row.origin for name in row.names if "." in name}
    for name in sorted(names):
        row = module.matrix.row(name, "python")
        if row is not None and row.origin and not row.name.startswith("torch."):
            found[name] = row
    return found


def _imported(module: Module) -> Iterator[tuple[ast.alias, str]]:
    for statement in module.imports:
        if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            for alias in statement.names:
                yield alias, f"{statement.module}.{alias.name}"


def _is_renamed(verdict: Verdict, row: Row) -> bool:
    """Is the target a neighbour of the name, and the call the same?"""
    return (
        verdict.status in _SAFETY
        and not row.args
        and row.name.isascii()
        and verdict.target.rpartition(".")[0] == row.name.rpartition(".")[0]
    )


def _written(node: ast.expr | ast.alias) -> str:
    return node.name if isinstance(node, ast.alias) else word(node)


def _renamed(node: ast.expr | ast.alias, new: str) -> Replace:
    """Another last word for a name, an attribute or what an import brings."""
    if isinstance(node, ast.Attribute):
        return attribute(node, new)

    def made(there: Any) -> Any:
        import libcst as cst

        if isinstance(there, cst.ImportAlias):
            return there.with_changes(name=cst.Name(new))
        return there.with_changes(value=new)

    return Replace(node, made)
