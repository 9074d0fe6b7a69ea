"""Profiling: activities, columns, NVTX ranges."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix, Span

from . import _imports
from ._claims import claimed
from ._dual import NAME, dual
from ._names import Name, NameRule
from ._statements import delete_guarded
from ._strings import retext
from ._torch import dotted
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_ACTIVITY = "ProfilerActivity.CUDA"
_COLUMNS = ("cuda_time", "cuda_time_total", "self_cuda_time_total", "cuda_memory_usage", "self_cuda_memory_usage")  # fmt: skip
_PROFILES = ("torch.autograd.profiler.profile", "torch.autograd.profiler_legacy.profile", "torch.profiler.profile")  # fmt: skip


class ProfilerDevice(Rule):
    """``ProfilerActivity.CUDA`` and the columns of the profiler's tables."""

    code = "HPU617"
    name = "profiler-activity-cuda"
    severity = "error"
    markers = (b"ProfilerActivity", b"cuda_time", b"cuda_memory_usage", b"use_cuda")
    also: ClassVar[dict[str, str]] = {"HPU618": "profiler-column-cuda"}

    def on_Attribute(self, module: Module, node: ast.Attribute) -> Iterator[Finding]:
        if claimed(module, node):
            return
        if node.attr in _COLUMNS and isinstance(node.ctx, ast.Load):
            yield self._column(module, node, node.attr)
        if node.attr != "CUDA" or not (dotted(module, node) or "").endswith(_ACTIVITY):
            return
        if _beside_hpu(module, node):
            return
        answer = ask(module, "torch.profiler.ProfilerActivity.CUDA")
        end = module.span(node).end
        edit = module.replace(Span(end - len("CUDA"), end), "HPU")
        if dual(module):
            edit = module.replace(node, f"getattr({module.source(node.value)}, {NAME}.upper())")
        yield self.finding(
            module,
            node,
            f"`{module.source(node)}` records nothing on Gaudi; record `ProfilerActivity.HPU`",
            fix=Fix("record HPU", answer.safety, (edit,)),
            row=answer.row,
        )

    def on_Constant(self, module: Module, node: ast.Constant) -> Iterator[Finding]:
        if node.value not in _COLUMNS or claimed(module, node):
            return
        parent = module.parent(node)
        if isinstance(parent, ast.keyword) and parent.arg in ("sort_by", "metric"):
            new = str(node.value).replace("cuda", "device")
            yield self.finding(
                module,
                node,
                f"`{module.source(node)}` is CUDA's column; `{new}` is that of whatever device there is",
                fix=Fix(f"sort by {new}", "safe", (retext(module, node, new),)),
                row=ask(module, "torch.autograd.profiler_util.EventList.table(sort_by=)").row,
                code="HPU618",
            )

    def on_keyword(self, module: Module, node: ast.keyword) -> Iterator[Finding]:
        call = module.parent(node)
        if (
            node.arg == "use_cuda"
            and isinstance(call, ast.Call)
            and dotted(module, call.func) in _PROFILES
        ):
            yield self.finding(
                module,
                node,
                f"`{module.source(node)}` profiles CUDA alone; "
                "use `torch.profiler.profile` with `ProfilerActivity.HPU`",
                code="HPU618",
            )

    def _column(self, module: Module, node: ast.Attribute, name: str) -> Finding:
        new = name.replace("cuda", "device")
        end = module.span(node).end
        edit = module.replace(Span(end - len(name), end), new)
        return self.finding(
            module, node, f"`.{name}` is CUDA's figure; `.{new}` is that of whatever device there is",
            fix=Fix(f"read {new}", "unsafe", (edit,)), code="HPU618", severity="warning",
        )  # fmt: skip


class NvtxRange(NameRule):
    """``torch.cuda.nvtx.range``."""

    code = "HPU619"
    name = "nvtx-range"
    severity = "warning"
    codes: ClassVar[dict[str, str]] = {"nvtx": "HPU619", "nvtx.": "HPU619"}
    also: ClassVar[dict[str, str]] = {}

    def prepare(self, module: Module, use: Name) -> None:
        if _statement(module, use) is not None:
            _imports.of(module).want(use.node, None)
        elif use.below == "nvtx.range":
            _imports.of(module).want(use.node, "torch.profiler.record_function")

    def special(self, module: Module, use: Name, code: str) -> Iterator[Finding] | None:
        return self._range(module, use)

    def _range(self, module: Module, use: Name) -> Iterator[Finding]:
        if claimed(module, use.node):
            return
        imports = _imports.of(module)
        shown = module.source(use.node)
        message = f"`{shown}` marks ranges for NVIDIA's profiler"
        row = ask(module, use.name).row
        statement = _statement(module, use)
        if statement is not None:
            edits = (*delete_guarded(module, statement), *imports.edits(use.node))
            fix = Fix("remove it", "safe", edits, imports.group(use.node))
            yield self.finding(module, use.node, message, fix=fix, row=row)
        elif use.below == "nvtx.range":
            text, needed = imports.spell(use.node, "torch.profiler.record_function")
            edits = (module.replace(use.node, text), *needed)
            fix = Fix("mark with record_function", "safe", edits, imports.group(use.node))
            yield self.finding(module, use.node, f"{message}; `record_function` marks for torch's", fix=fix, row=row)  # fmt: skip
        else:
            yield self.finding(module, use.node, message, row=row)


def _statement(module: Module, use: Name) -> ast.stmt | None:
    """The statement that only opens, closes or sets a mark."""
    if use.below not in ("nvtx.range_push", "nvtx.range_pop", "nvtx.mark"):
        return None
    call = module.parent(use.node)
    statement = (
        module.parent(call) if isinstance(call, ast.Call) and call.func is use.node else None
    )
    return statement if isinstance(statement, ast.Expr) else None


def _beside_hpu(module: Module, node: ast.AST) -> bool:
    parent = module.parent(node)
    return isinstance(parent, (ast.List, ast.Tuple, ast.Set)) and any(
        isinstance(e, ast.Attribute) and e.attr == "HPU" for e in parent.elts
    )
