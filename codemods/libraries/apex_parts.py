"""The parts of apex where they are used, and code that stops when a package made for NVIDIA GPUs is missing."""

from __future__ import annotations

import ast
import re

from hpushim.engine.python.changes import Change, Rename, Rewrite
from hpushim.engine.rules.rule import Code, Module, Wants, Yield
from hpushim.matrix import Row
from hpushim.model import Severity
from hpushim.pycode.tries import NO_MODULE, kinds

from ..analysis.names import called
from ..analysis.verdict import ask, inside
from ..bases.row_argument import Given, arguments_of, by_row
from ..bases.row_name import RowNameRule
from ..edits.arguments import drop

#: Classes whose arguments torch's have too, but for those that the matrix lists.
_SAME = frozenset(["torch.nn.LayerNorm", "torch.nn.parallel.DistributedDataParallel"])
_PACKAGES = {"apex": "apex", "flash-attn": "flash_attn", "flash_attn": "flash_attn", "xformers": "xformers"}  # fmt: skip
_DEMAND = re.compile(rf"(?<![\w./-])({'|'.join(_PACKAGES)})(?![\w-])", re.I)
#: What is said where a package is missing.
_MISSING = re.compile(
    r"install|availab|missing|requir|need|import|without|not found|\bno\b|must", re.I
)
_EXITS = ("sys.exit", "builtins.exit", "builtins.quit", "os._exit")


class ApexPart(RowNameRule):
    """``apex.normalization.FusedLayerNorm``, ``DDP(model, delay_allreduce=True)``, ``raise ImportError("install apex")``."""

    HPU718 = Code("apex-part", severity="error", fix=("unsafe", "manual"), lower=by_row("warning"))
    HPU719 = Code("package-demanded")
    wants = Wants(strings=tuple(dict.fromkeys([*_PACKAGES, "Apex", "APEX"])))

    def __init__(self) -> None:
        super().__init__()
        self._demands: set[ast.stmt] = set()

    def level(self, module: Module, node: ast.expr, severity: Severity) -> Severity:
        """Where nothing catches that apex is not there, its import stops the program."""
        return severity if self.may_lack(module, node) else "error"

    def rewrite(self, module: Module, node: ast.expr, row: Row) -> Rewrite | None:
        """Torch's class in the place of apex's, without the arguments that it lacks."""
        if row.target not in _SAME:
            return None
        changes: list[Change] = [Rename(node, row.target)]
        call = called(module, node)
        if call is not None:
            lacking = {
                name.partition("(")[2].rstrip("=)")
                for other in module.matrix.arguments(row.name)
                for name in other.names
            }
            if len(call.args) > 1 and lacking:
                return None  # by place, which is another argument of torch's
            given = [each for each in arguments_of(module, call) if each.name in lacking]
            if any(each.keyword not in call.keywords for each in given):
                return None  # in a dictionary, which others may be given too
        return Rewrite(
            f"use {row.target}", "unsafe", tuple(changes), group=f"apex:{row.name}", harmless=True
        )

    def fix_of(
        self, module: Module, call: ast.Call, argument: Given, row: Row, status: str
    ) -> Rewrite | None:
        """What torch's class lacks goes when that takes the place of apex's."""
        part = self._row(module, module.qualified(call.func) or "")
        if (
            part is None
            or argument.keyword is None
            or self.rewrite(module, call.func, part) is None
        ):
            return None
        gone = drop(call, argument.name)
        return Rewrite("leave it out", "unsafe", gone, group=f"apex:{part.name}", harmless=True)

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """A text that names such a package where the program stops."""
        assert isinstance(node.value, str)
        found = _DEMAND.search(node.value)
        if found is None or not _MISSING.search(node.value):
            return
        stop = _stop(module, node)
        if stop is None or stop in self._demands or found[1].lower() in module.project.shadowing:
            return
        self._demands.add(stop)
        answer = ask(module, _PACKAGES[found[1].lower()])
        yield self.finding(
            stop,
            f"the program stops here on Gaudi if this line is reached, because `{found[1].lower()}` is missing: {inside(answer.note)}",
            row=answer.row,
            code="HPU719",
        )


def _stop(module: Module, node: ast.AST) -> ast.stmt | None:
    """The statement that stops the program with this text: ``raise``, ``assert``, ``sys.exit``.

    Where a failed import is caught the import itself is reported, under HPU709.
    """
    statement = module.statement(node)
    above = module.ancestors(statement)
    if any(isinstance(each, ast.ExceptHandler) and NO_MODULE & kinds(each) for each in above):
        return None
    if isinstance(statement, (ast.Raise, ast.Assert)):
        return statement
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        name = module.qualified(statement.value.func)
        return statement if name in _EXITS else None
    return None
