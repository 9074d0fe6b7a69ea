"""What Accelerate, Transformers and Lightning offer on CUDA and have not, or have otherwise, on Gaudi; defaults of libraries."""

from __future__ import annotations

import ast
import re

from hpushim.engine.rules.rule import Code, Found, Module, Strength, Wants, Yield
from hpushim.matrix import Row
from hpushim.pycode.walk import walk

from ..analysis.device_texts import device_name
from ..analysis.devices import may_be_cuda
from ..analysis.kernels import SPREADS, spread_models
from ..analysis.names import word
from ..analysis.verdict import inside
from ..analysis.versions import assess
from ..bases.row_argument import SEVERITY, by_row
from ..bases.row_name import RowNameRule

_SCHEDULER = re.compile(r"sched|lr", re.I)
_LIGHTNING = ("lightning", "pytorch_lightning")
_LOADER = "habana_dataloader"
_DEVICE = "device"
_OPTIMIZERS_ROW = "several optimizers in Lightning"
_SPREAD_ROW = "transformers.PreTrainedModel.parallelize"
_LOADER_ROW = "the Habana data loader in Lightning"


class FrameworkLimit(RowNameRule):
    """A name or an argument whose row carries this code, and two limits of Lightning that have no name."""

    HPU717 = Code(
        "framework-limit", severity="error", effort="hours", lower=by_row("warning", "note")
    )
    wants = Wants(definitions=("configure_optimizers",), imports=(_LOADER,), calls=(SPREADS,))

    def nearer(self, module: Module, node: ast.expr, row: Row) -> Row | None:
        """Nothing is to be said of a library's default where the call gives a device."""
        call = module.parent(node)
        if row.area != "library" or not isinstance(call, ast.Call) or call.func is not node:
            return row
        given = any(keyword.arg == _DEVICE for keyword in call.keywords)
        named = any(device_name(word(each)) for each in call.args)
        return None if given or named or any(may_be_cuda(module, e) for e in call.args) else row

    def on_definition(self, module: Module, node: ast.AST) -> Yield:
        """``configure_optimizers`` that gives Lightning several."""
        if not isinstance(node, ast.FunctionDef) or not _is_lightnings(module, module.parent(node)):
            return
        for found in walk(node):
            if isinstance(found, ast.Return) and found.value is not None and _several(found.value):
                yield self._limit(module, found, "several optimizers", _OPTIMIZERS_ROW)

    def on_import(self, module: Module, alias: ast.alias, name: str) -> Yield:
        """``habana_dataloader`` beside Lightning."""
        statement = module.parent(alias)
        assert isinstance(statement, (ast.Import, ast.ImportFrom))
        package = statement.module if isinstance(statement, ast.ImportFrom) else name
        if package == _LOADER and alias is statement.names[0] and _imports_lightning(module):
            yield self._limit(module, statement, _LOADER, _LOADER_ROW)

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """``model.parallelize()``."""
        if node.func in spread_models(module):
            yield self._limit(module, node.func, f"`{module.source(node.func)}`", _SPREAD_ROW)

    def _limit(self, module: Module, node: ast.AST, what: str, row: str) -> Found:
        found = module.matrix.row(row)
        assert found is not None, row
        verdict = assess(module, found)
        return self.finding(
            node,
            f"{what}: {inside(verdict.note)}",
            row=row,
            severity=SEVERITY[verdict.status],
            strength=Strength.FIRM,
        )


def _is_lightnings(module: Module, owner: ast.AST | None) -> bool:
    """Whether a class derives from Lightning's module by name."""
    if not isinstance(owner, ast.ClassDef):
        return False
    bases = [module.qualified(base) or "" for base in owner.bases]
    return any(b.endswith(".LightningModule") and b.startswith(_LIGHTNING) for b in bases)


def _several(value: ast.expr) -> bool:
    """Whether what ``configure_optimizers`` returns are visibly two optimizers: ``a, b``, ``[a, b], []``."""
    if not isinstance(value, ast.Tuple | ast.List) or len(value.elts) < 2:
        return False
    first = value.elts[0]
    if isinstance(value, ast.Tuple) and isinstance(first, ast.List | ast.Tuple):
        return len(first.elts) > 1  # optimizers and schedulers
    return not any(_SCHEDULER.search(word(each)) for each in value.elts[1:])


def _imports_lightning(module: Module) -> bool:
    names = [
        statement.module or "" if isinstance(statement, ast.ImportFrom) else alias.name
        for statement in module.imports
        for alias in statement.names
    ]
    return any(name.partition(".")[0] in _LIGHTNING for name in names)
