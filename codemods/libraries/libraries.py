"""Libraries whose code is made for NVIDIA cards, or that have another form on Gaudi: told from the matrix."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Finding, Fix

from ._row_arguments import SEVERITY, RowRule
from ._row_markers import of_arguments, of_packages
from ._strings import retext
from ._verdict import ask, inside
from ._versions import judge

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module
    from hpushim.matrix import Row

_FLASH = "flash_attention_2"

_ALSO = {
    "HPU213": "fp8-library",
    "HPU320": "megatron-or-horovod",
    "HPU609": "gpu-data-loader",
    "HPU701": "hugging-face-trainer",
    "HPU702": "device-map",
    "HPU703": "flash-attention",
    "HPU704": "accelerate",
    "HPU705": "lightning",
    "HPU706": "diffusers",
    "HPU707": "deepspeed",
    "HPU708": "triton-kernel",
    "HPU710": "vision-operators",
    "HPU712": "cuda-arrays",
    "HPU713": "inference-server",
    "HPU714": "training-toolbox",
    "HPU715": "graph-operators",
    "HPU716": "scheduler-resource",
}


class Library(RowRule):
    """An import of a package that the matrix knows, once for each package and file."""

    code = "HPU709"
    name = "cuda-library"
    also: ClassVar[dict[str, str]] = _ALSO
    markers = (
        *of_packages(("HPU709", *_ALSO)),
        *of_arguments(("HPU709", *_ALSO)),
        _FLASH.encode(),
        b"device_map",
    )

    def __init__(self) -> None:
        self._told: set[str] = set()

    def on_Import(self, module: Module, node: ast.Import) -> Iterator[Finding]:
        for alias in node.names:
            yield from self._package(module, alias, alias.name)

    def on_ImportFrom(self, module: Module, node: ast.ImportFrom) -> Iterator[Finding]:
        if node.module and not node.level:
            for alias in node.names:
                yield from self._package(module, alias, f"{node.module}.{alias.name}")

    def _package(self, module: Module, where: ast.alias, dotted: str) -> Iterator[Finding]:
        row = _row(module, dotted)
        if (
            row is None
            or row.name in self._told
            or dotted.split(".", maxsplit=1)[0] in module.project.modules
        ):
            return
        verdict = judge(module, row)
        codes = (self.code, *self.also)
        if row.rule not in codes or verdict.status == "native":
            return
        self._told.add(row.name)
        severity = SEVERITY[verdict.status]
        if severity == "error" and _guarded(module, where):
            severity = "warning"
        yield self.finding(
            module,
            where,
            f"`{row.name}`: {verdict.note[:1].lower() + verdict.note[1:].rstrip('.')}",
            row=row.name,
            code=row.rule,
            severity=severity,
        )

    def on_keyword(self, module: Module, node: ast.keyword) -> Iterator[Finding]:
        if node.arg == "device_map":
            yield from self._device_map(module, node)
        elif (
            node.arg in ("attn_implementation", "_attn_implementation")
            and module.constant(node.value) == _FLASH
        ):
            yield self.finding(
                module,
                node.value,
                f"`{_FLASH}` needs a CUDA extension; torch's own attention is `sdpa`",
                fix=Fix("use sdpa", "unsafe", (retext(module, node.value, "sdpa"),)),
                row="flash_attn",
                code="HPU703",
            )

    def _device_map(self, module: Module, node: ast.keyword) -> Iterator[Finding]:
        """``from_pretrained(…, device_map="auto")``."""
        if any(_spreads(module, value) for value in module.values(node.value)):
            answer = ask(module, "transformers.AutoModel.from_pretrained(device_map=)")
            yield self.finding(
                module,
                node,
                f"`{module.source(node).splitlines()[0]}`: {inside(answer.note)}",
                row=answer.row,
                code="HPU702",
            )


def _spreads(module: Module, value: ast.expr) -> bool:
    """Does a device map leave the cards to the library, or give several?"""
    if isinstance(value, ast.Dict):
        return len({module.source(v) for v in value.values}) > 1
    return module.constant(value) in ("auto", "balanced", "balanced_low_0", "sequential")


def _row(module: Module, dotted: str) -> Row | None:
    """The row of the package that ``dotted`` lies in, the nearest one."""
    name = dotted
    while name:
        row = module.matrix.row(name, "package")
        if row is not None:
            return row
        name = name.rpartition(".")[0]
    return None


def _guarded(module: Module, node: ast.AST) -> bool:
    """Does the code go on without the package: under ``try``, under ``if``, inside a function?"""
    return any(
        isinstance(above, (ast.Try, ast.If, ast.FunctionDef, ast.AsyncFunctionDef))
        for above in module.ancestors(node)
    )
