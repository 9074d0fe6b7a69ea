"""cuDNN's switches, which nothing reads on Gaudi."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _imports
from ._claims import claimed
from ._dual import dual
from ._names import Name, known, uses
from ._statements import delete_guarded

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

CUDNN = "torch.backends.cudnn"
_FLAGS = ("benchmark", "deterministic", "enabled", "benchmark_limit")


class CudnnFlag(Rule):
    """``torch.backends.cudnn.benchmark = True``."""

    code = "HPU410"
    name = "cudnn-flag"
    severity = "info"
    markers = (b"cudnn", b"torch.backends.cuda")
    also: ClassVar[dict[str, str]] = {"HPU419": "cuda-kernel-choice"}

    def __init__(self) -> None:
        self._flags: dict[ast.stmt, list[Name]] = {}
        self._rest: list[Name] = []

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if dual(module):
            return  # they stay, for CUDA
        for use in uses(module):
            if not use.name.startswith((f"{CUDNN}.", "torch.backends.cuda.")) or "tf32" in use.name:
                continue
            statement = self._assignment(module, use)
            if statement is not None and self._idle(module, use.name):
                self._flags.setdefault(statement, []).append(use)
                _imports.of(module).want(use.node, None)
            else:
                self._rest.append(use)
        yield from ()

    def on_module(self, module: Module) -> Iterator[Finding]:
        imports = _imports.of(module)
        for statement, flags in self._flags.items():
            if len(flags) < len(getattr(statement, "targets", flags)) or claimed(module, statement):
                continue
            nodes = [use.node for use in flags]
            fix = Fix(
                "remove it",
                "safe",
                (*delete_guarded(module, statement), *imports.edits(*nodes)),
                imports.group(*nodes),
            )
            shown = module.source(statement)
            yield self.finding(
                module, statement, f"`{shown}` does nothing on Gaudi, which has no cuDNN",
                fix=fix, row=known(module, flags[0].name)[0],
            )  # fmt: skip
        for use in self._rest:
            if not claimed(module, use.node):
                yield from self._other(module, use)

    def _assignment(self, module: Module, use: Name) -> ast.stmt | None:
        """The statement that does nothing but set the flag, to a value that computes nothing."""
        parent = module.parent(use.node)
        if not isinstance(parent, ast.Assign) or use.name.rpartition(".")[2] not in _FLAGS:
            return None
        if not any(use.node is target for target in parent.targets):
            return None
        plain = not any(
            isinstance(part, (ast.Call, ast.NamedExpr)) for part in ast.walk(parent.value)
        )
        return parent if plain else None

    def _idle(self, module: Module, name: str) -> bool:
        _, verdict = known(module, name)
        return verdict is not None and verdict.status == "noop"

    def _other(self, module: Module, use: Name) -> Iterator[Finding]:
        shown = module.source(use.node)
        part, verdict = known(module, use.name)
        kernels = use.name.startswith("torch.backends.cuda.")
        if use.name.endswith("is_built"):
            return  # the version rule's
        note = (
            verdict.note
            if verdict is not None
            else "Gaudi has no cuDNN and no choice of CUDA kernels"
        )
        yield self.finding(
            module, use.node, f"`{shown}` has no effect on Gaudi: {note}",
            row=part if verdict is not None else None,
            code="HPU419" if kernels else None, severity="info", safety="manual",
        )  # fmt: skip
