"""NVTX ranges: marks for NVIDIA's profiler."""

from __future__ import annotations

from hpushim.engine.python.changes import Remove, Rename, Rewrite
from hpushim.engine.rules.rule import Code, Module, Yield

from ..analysis.verdict import ask
from ..bases.torch_name import Name, NameRule, call_statement, for_cuda_only
from ..edits.spelling import agnostic

_RANGE = "nvtx.range"
#: Calls that only open, close or set a mark.
_MARKS = ("nvtx.range_push", "nvtx.range_pop", "nvtx.mark")
_RECORD = "torch.profiler.record_function"


class NvtxRange(NameRule):
    """``torch.cuda.nvtx.range``."""

    HPU619 = Code("nvtx-range", fix=("safe", "manual"))

    def special(self, module: Module, use: Name, code: str) -> Yield:
        message = (
            f"`{module.source(use.node)}` marks a range for NVIDIA's profiler, which does not "
            "record Gaudi"
        )
        statement = call_statement(module, use.node) if use.below in _MARKS else None
        fix = None
        if agnostic(module):
            fix = for_cuda_only(module, use.node)
        elif statement is not None:
            message += "; remove it"
            fix = Rewrite("remove it", "safe", (Remove(statement),), harmless=True)
        elif use.below == _RANGE:
            fix = Rewrite(
                "mark with record_function", "safe", (Rename(use.node, _RECORD),), harmless=True
            )
            message += "; use `torch.profiler.record_function`"
        yield self.finding(use.node, message, fix=fix, row=ask(module, use.name).row)
