"""CUDA graphs, and CUDA's own runtime."""

from __future__ import annotations

from hpushim.engine.rules.rule import Code, Found, Module, Yield

from ..analysis.verdict import known, sentence
from ..bases.torch_name import Name, NameRule


class GraphName(NameRule):
    """``torch.cuda.CUDAGraph`` and ``torch.cuda.cudart``."""

    HPU416 = Code("cuda-graph", severity="error", effort="hours")
    HPU417 = Code("cuda-runtime", severity="error", fix=("safe", "manual"))

    def special(self, module: Module, use: Name, code: str) -> Yield:
        """Graphs are rewritten by hand."""
        return (self._by_hand(module, use, code),)

    def _by_hand(self, module: Module, use: Name, code: str) -> Found:
        part, verdict = known(module, use.name)
        shown = module.source(use.node)
        if verdict is None or verdict.row is None:
            return self.finding(
                use.node, f"`{shown}` belongs to the CUDA runtime, which Gaudi does not have", code=code
            )  # fmt: skip
        return self.finding(
            use.node, f"`{shown}` is not rewritten. {sentence(verdict.note)}",
            row=part, code=code, safety="manual",
        )  # fmt: skip
