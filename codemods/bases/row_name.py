"""Names and arguments that the matrix has rows for: what it says of them is reported as it is there."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Module, Wants, Yield
from hpushim.matrix import Row, load
from hpushim.model import Severity

from ..analysis.names import in_annotation, root
from ..analysis.optional_packages import optional
from ..analysis.verdict import inside
from ..analysis.versions import assess
from .row_argument import ADVICE, SEVERITY, RowRule, may_report

#: The packages of Gaudi, whose names are right where they are.
_OF_GAUDI = frozenset(["habana_frameworks", "lightning_habana", "optimum"])
#: A word of torch of this many letters is no everyday word.
_LONG = 8


class RowNameRule(RowRule):
    """Base of the rules whose findings are rows of the matrix, on names as well as on arguments."""

    @classmethod
    def words_of_rows(cls) -> tuple[Wants, Wants]:
        """The names under its codes with what lies below them, and what is called with an argument under one."""
        reasons, others = super().words_of_rows()
        rows = [
            row for row in load().by_kind("python") if row.rule in cls.codes and may_report(row)
        ]
        for row in rows:
            for name in row.names:
                if name.partition(".")[0] not in _OF_GAUDI:
                    words = Wants(names=(name, f"{name}.*"))
                    if _is_reason(row, name):
                        reasons |= words
                    else:
                        others |= words
        return reasons, others

    def __init__(self) -> None:
        super().__init__()
        self._uses: list[tuple[ast.expr, Row]] = []

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        yield from super().on_name(module, node, name)
        if isinstance(module.parent(node), ast.Attribute) or module.qualified(node) != name:
            return  # a part of a longer name, which is reported by itself
        if _is_in_own(module, node) or _is_requested(module, node) or in_annotation(module, node):
            return
        row = self._row(module, name)
        row = self.nearer(module, node, row) if row is not None else None
        if row is not None:
            self._uses.append((node, row))

    def on_module(self, module: Module) -> Yield:
        reported: set[str] = set()
        for node, row in sorted(self._uses, key=lambda use: module.span(use[0])):
            verdict = assess(module, row)
            if verdict.status == "native":
                continue
            severity = self.level(module, node, SEVERITY[verdict.status])
            if severity == "note" and row.name in reported:
                continue  # advice is given once in a file
            reported.add(row.name)
            yield self.finding(
                node,
                f"`{module.source(node).splitlines()[0]}`{_origin(module, node, row)}: {inside(verdict.note)}",
                fix=self.rewrite(module, node, row),
                row=row.name,
                code=row.rule,
                severity=severity,
            )

    def nearer(self, module: Module, node: ast.expr, row: Row) -> Row | None:
        """A row that says more of this use, where a subclass knows one; None where nothing is to be said of it."""
        return row

    def level(self, module: Module, node: ast.expr, severity: Severity) -> Severity:
        """The severity of a use: what comes from a package that the code may do without is not reached without it."""
        return "warning" if severity == "error" and self.may_lack(module, node) else severity

    def may_lack(self, module: Module, node: ast.expr) -> bool:
        """Does the code do without the package that a name comes from?"""
        base = root(node)
        bound = module.bindings(base) if isinstance(base, ast.Name) else []
        return any(optional(module, each.node) for each in bound if each.kind == "import")

    def rewrite(self, module: Module, node: ast.expr, row: Row) -> Rewrite | None:
        """What a subclass can put in the place of a use."""
        return None

    def _row(self, module: Module, name: str) -> Row | None:
        """The row of the name or of what it is an attribute of, when one of these codes is its rule."""
        while name:
            row = module.matrix.row(name)
            if row is not None:
                return row if row.rule in self.codes and row.kind == "python" else None
            name = name.rpartition(".")[0]
        return None


def _is_in_own(module: Module, node: ast.expr) -> bool:
    """Is it inside the class or function that a file defines in the place of what it cannot import?"""
    base = root(node)
    bound = module.bindings(base) if isinstance(base, ast.Name) else []
    return any(above is each.node for each in bound for above in module.ancestors(node))


def _is_requested(module: Module, node: ast.expr) -> bool:
    """Is it a class that something may be: the second argument of ``isinstance``?"""
    above = module.parent(node)
    inner: ast.AST = node
    if isinstance(above, ast.Tuple):
        inner, above = above, module.parent(above)
    return (
        isinstance(above, ast.Call)
        and module.qualified(above.func) in ("builtins.isinstance", "builtins.issubclass")
        and inner in above.args[1:]
    )


def _is_reason(row: Row, name: str) -> bool:
    """Is a file read for the name? What does nothing on Gaudi, or what nobody knows, is looked for where its word is a rare one."""
    if row.status not in ADVICE:
        return True
    return row.status != "native" and len(name.rpartition(".")[2]) >= _LONG


def _origin(module: Module, node: ast.expr, row: Row) -> str:
    """The library of a name that does not say it: `` of apex`` for ``BertLayerNorm``."""
    library = row.name.partition(".")[0]
    return f" of {library}" if row.area == "library" and library not in module.source(node) else ""
