"""What Accelerate, Transformers and Lightning offer on CUDA and have not, or have otherwise, on Gaudi."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Finding

from ._row_arguments import SEVERITY
from ._row_markers import of_arguments, of_names
from ._torch import dotted
from .matrix_names import MatrixName

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_LIGHTNING = ("lightning", "pytorch_lightning")
_OPTIMIZERS = "several optimizers in Lightning"
_LOADER = "the Habana data loader in Lightning"


class FrameworkLimit(MatrixName):
    """A name or an argument whose row carries this code, and two limits of Lightning that have no name."""

    code = "HPU717"
    name = "framework-limit"
    also: ClassVar[dict[str, str]] = {}
    markers = (
        *of_names((code,)),
        *of_arguments((code,)),
        b"configure_optimizers",
        b"habana_dataloader",
    )

    def on_FunctionDef(self, module: Module, node: ast.FunctionDef) -> Iterator[Finding]:
        if node.name != "configure_optimizers" or not _is_lightnings(module, module.parent(node)):
            return
        for found in ast.walk(node):
            if isinstance(found, ast.Return) and found.value is not None and _several(found.value):
                yield self._limit(module, found, "several optimizers", _OPTIMIZERS)

    def on_ImportFrom(self, module: Module, node: ast.ImportFrom) -> Iterator[Finding]:
        if node.module == "habana_dataloader" and _imports_lightning(module):
            yield self._limit(module, node, node.module, _LOADER)

    def on_Import(self, module: Module, node: ast.Import) -> Iterator[Finding]:
        if node.names[0].name == "habana_dataloader" and _imports_lightning(module):
            yield self._limit(module, node, node.names[0].name, _LOADER)

    def _limit(self, module: Module, node: ast.AST, what: str, row: str) -> Finding:
        found = module.matrix.row(row)
        assert found is not None, row
        verdict = module.matrix.judge(found, module.target)
        return self.finding(
            module,
            node,
            f"{what}: {verdict.note.rstrip('.')}",
            row=row,
            severity=SEVERITY[verdict.status],
        )


def _is_lightnings(module: Module, owner: ast.AST | None) -> bool:
    """Whether a class derives from Lightning's module by name."""
    if not isinstance(owner, ast.ClassDef):
        return False
    bases = [dotted(module, base) or "" for base in owner.bases]
    return any(b.endswith(".LightningModule") and b.startswith(_LIGHTNING) for b in bases)


def _several(value: ast.expr) -> bool:
    """Whether what ``configure_optimizers`` returns are visibly two optimizers: ``a, b``, ``[a, b], []``."""
    if not isinstance(value, ast.Tuple | ast.List) or len(value.elts) < 2:
        return False
    first = value.elts[0]
    if isinstance(value, ast.Tuple) and isinstance(first, ast.List | ast.Tuple):
        return len(first.elts) > 1  # optimizers and schedulers
    return True


def _imports_lightning(module: Module) -> bool:
    names: list[str] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    return any(name.partition(".")[0] in _LIGHTNING for name in names)
