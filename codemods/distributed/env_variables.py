"""Environment variables of CUDA and NCCL that Python code sets or reads, and the execution mode."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from ._claims import kept_whole
from ._strings import retext
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_VARIABLE = re.compile(
    r"(TORCH_)?NCCL_\w+|CUDA_\w+|CUBLAS\w*_\w+|NVIDIA_\w+|PYTORCH_(CUDA_)?ALLOC_CONF|TORCH_CUDA_ARCH_LIST|NVTE_\w+"
)
_CARDS = "CUDA_VISIBLE_DEVICES"
_MODULES = "HABANA_VISIBLE_MODULES"
_LAZY = "PT_HPU_LAZY_MODE"
_ACCESS = frozenset(
    {
        "os.getenv",
        "os.putenv",
        "os.unsetenv",
        "os.environ.get",
        "os.environ.setdefault",
        "os.environ.pop",
    }
)


class EnvVariable(Rule):
    """``os.environ["NCCL_DEBUG"]``, ``os.environ["CUDA_VISIBLE_DEVICES"]``."""

    code = "HPU311"
    name = "cuda-variable-in-code"
    severity = "info"
    markers = (b"NCCL_", b"CUDA_", b"CUBLAS", b"NVIDIA_", b"ALLOC_CONF", b"NVTE_", _LAZY.encode())
    also: ClassVar[dict[str, str]] = {
        "HPU312": "visible-cards-in-code",
        "HPU509": "lazy-mode-after-import",
    }

    def on_Subscript(self, module: Module, node: ast.Subscript) -> Iterator[Finding]:
        if module.qualified(node.value) == "os.environ":
            yield from self._variable(module, node.slice, node)

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        if node.args and module.qualified(node.func) in _ACCESS:
            yield from self._variable(module, node.args[0], node)

    def _variable(self, module: Module, key: ast.expr, use: ast.expr) -> Iterator[Finding]:
        if kept_whole(module):
            return
        name = module.constant(key)
        if not isinstance(name, str):
            return
        if name == _LAZY:
            yield from self._lazy(module, use)
        elif name == _CARDS:
            answer = ask(module, name, "unsafe")
            fix = Fix(f"use {_MODULES}", "unsafe", (retext(module, key, _MODULES),), _CARDS)
            yield self.finding(
                module,
                key,
                f"`{name}` has no reader on Gaudi; `{_MODULES}` picks cards by their module ids",
                fix=fix,
                row=answer.row,
                code="HPU312",
                severity="warning",
            )
        elif _VARIABLE.fullmatch(name):
            row = module.matrix.covering(name)
            note = f": {row.note.rstrip('.')}" if row is not None and row.kind == "env" else ""
            text = f"`{name}` has no reader on Gaudi{note}"
            yield self.finding(module, key, text, row=row.name if row and note else None)

    def _lazy(self, module: Module, use: ast.expr) -> Iterator[Finding]:
        """A mode that is set too late: the value is read when the bridge is loaded."""
        statement = module.statement(use)
        if not isinstance(statement, (ast.Assign, ast.Expr)) or isinstance(use.ctx if isinstance(use, ast.Subscript) else None, ast.Load):  # fmt: skip
            return
        loaded = [
            s
            for s in module.imports
            if module.scope(s) is module.global_scope
            and s.lineno < statement.lineno
            and any(_loads_bridge(s, alias) for alias in s.names)
        ]
        if loaded:
            yield self.finding(
                module,
                use,
                f"`{_LAZY}` is read when torch is imported, in line {loaded[0].lineno}: set it before",
                row=ask(module, _LAZY).row,
                code="HPU509",
                severity="warning",
            )


def _loads_bridge(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    name = statement.module or "" if isinstance(statement, ast.ImportFrom) else alias.name
    return name.partition(".")[0] in ("torch", "habana_frameworks", "transformers", "accelerate")
