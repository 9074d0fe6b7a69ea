"""Names of torch that no supported release has."""

from __future__ import annotations

import ast

from hpushim.engine.rules.rule import Code, Module, Wants, Yield
from hpushim.matrix import Row

from ..analysis.names import root
from ..analysis.optional_packages import caught
from ..analysis.verdict import inside
from ..bases.row_name import RowNameRule


class RemovedName(RowNameRule):
    """``from torch._six import inf``, ``torch.symeig(a)``."""

    HPU031 = Code("removed-from-torch", severity="error")

    def __init__(self) -> None:
        super().__init__()
        self._reported: set[tuple[str, ast.AST | None]] = set()

    @classmethod
    def words_of_rows(cls) -> tuple[Wants, Wants]:
        reasons, others = super().words_of_rows()
        names = tuple(name for name in reasons.names if not name.endswith(".*"))
        return reasons | Wants(imports=names), others

    def on_import(self, module: Module, alias: ast.alias, name: str) -> Yield:
        row, statement = self._row(module, name), module.parent(alias)
        if (
            row is not None
            and (row.name, statement) not in self._reported
            and not caught(module, alias)
        ):
            self._reported.add((row.name, statement))
            shown = name if name in row.names else row.name
            yield self.finding(alias, f"`{shown}`: {inside(row.note)}", row=row.name)

    def nearer(self, module: Module, node: ast.expr, row: Row) -> Row | None:
        """What an import brings is reported there."""
        base = root(node)
        bound = module.bindings(base) if isinstance(base, ast.Name) else []
        reported = any(self._row(module, binding.qualified or "") for binding in bound)
        return None if reported or caught(module, node) else row
