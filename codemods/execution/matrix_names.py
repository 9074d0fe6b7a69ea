"""Names that need no rewriting rule of their own: the matrix says what Gaudi does with them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Finding

from ._claims import claimed
from ._row_arguments import SEVERITY, RowRule
from ._row_markers import of_arguments, of_names
from ._torch import references

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module
    from hpushim.matrix import Row

_PREFIXES = ("torch.", "apex.", "deepspeed.", "transformers.", "accelerate.", "lightning.", "pytorch_lightning.", "bitsandbytes.")  # fmt: skip

_ALSO = {
    "HPU210": "tf32-switch",
    "HPU212": "apex-amp",
    "HPU216": "eight-bit-optimizer",
    "HPU307": "ddp-buckets",
    "HPU313": "collective-limit",
    "HPU316": "process-start",
    "HPU318": "sync-batch-norm",
    "HPU319": "deepspeed-accelerator",
    "HPU504": "optimizer-with-closure",
    "HPU514": "dynamic-shape",
    "HPU516": "in-place-on-view",
    "HPU517": "unused-parameters",
    "HPU518": "autograd-with-cuda",
    "HPU519": "memory-layout",
    "HPU521": "without-kernel-of-its-own",
    "HPU522": "inference-mode",
    "HPU602": "apex-optimizer",
    "HPU603": "clip-grad-norm",
    "HPU604": "foreach-option",
    "HPU614": "device-checkpoint",
    "HPU711": "cuda-extension",
}


class MatrixName(RowRule):
    """A use of a name whose row carries one of these codes."""

    code = "HPU512"
    name = "torchscript-or-export"
    also: ClassVar[dict[str, str]] = _ALSO
    markers = (*of_names(("HPU512", *_ALSO)), *of_arguments(("HPU512", *_ALSO)))

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._names: dict[ast.expr, str] = {}

    def on_Module(self, module: Module, node: ast.Module) -> Iterable[Finding]:
        for use, name in references(module).items():
            if name.startswith(_PREFIXES):
                self._names[use] = name
        return ()

    def on_Attribute(self, module: Module, node: ast.Attribute) -> Iterable[Finding]:
        name = self._names.get(node)
        return self._use(module, node, name) if name is not None else ()

    def on_Name(self, module: Module, node: ast.Name) -> Iterable[Finding]:
        name = self._names.get(node)
        if name is None or not isinstance(node.ctx, ast.Load):
            return ()
        return self._use(module, node, name)

    def _use(self, module: Module, node: ast.expr, name: str) -> Iterator[Finding]:
        row = self._row(module, name)
        if row is None or claimed(module, node):
            return
        verdict = module.matrix.judge(row, module.target)
        if verdict.status == "native":
            return
        severity = SEVERITY[verdict.status]
        if severity == "info" and row.name in self._told:
            return  # advice is given once in a file
        self._told.add(row.name)
        yield self.finding(
            module,
            node,
            f"`{module.source(node).splitlines()[0]}`: {verdict.note.rstrip('.')}",
            row=row.name,
            code=row.rule,
            severity=severity,
        )

    def _row(self, module: Module, name: str) -> Row | None:
        """The row of the name or of what it is an attribute of, when one of these codes is its rule."""
        codes = (self.code, *self.also)
        while "." in name:
            row = module.matrix.row(name)
            if row is not None:
                return row if row.rule in codes and row.kind == "python" else None
            name = name.rpartition(".")[0]
        return None
