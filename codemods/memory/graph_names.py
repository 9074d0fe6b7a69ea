"""CUDA graphs, and CUDA's own runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rules.rule import Costs, Found, Yield

from ..analysis.verdict import inside, known
from ..bases.torch_name import Name, NameRule

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


class GraphName(NameRule):
    """``torch.cuda.CUDAGraph`` and ``torch.cuda.cudart``."""

    code = "HPU416"
    name = "cuda-graph"
    costs = Costs(hours=("HPU416",), none=("HPU417",))
    severity = "error"
    table: ClassVar[dict[str, str]] = {
        "CUDAGraph": "HPU416",
        "CUDAGraph.": "HPU416",
        "graph": "HPU416",
        "graphs": "HPU416",
        "make_graphed_callables": "HPU416",
        "graph_pool_handle": "HPU416",
        "is_current_stream_capturing": "HPU416",
        "cudart": "HPU417",
        "check_error": "HPU417",
        "profiler": "HPU417",
        "profiler.": "HPU417",
        "_sleep": "HPU417",
        "_compile_kernel": "HPU417",
        "jiterator": "HPU417",
        "jiterator.": "HPU417",
        "current_blas_handle": "HPU417",
    }
    also: ClassVar[dict[str, str]] = {"HPU417": "cuda-runtime"}

    def special(self, module: Module, use: Name, code: str) -> Yield:
        """Graphs are rewritten by hand."""
        return (self._by_hand(module, use, code),)

    def _by_hand(self, module: Module, use: Name, code: str) -> Found:
        part, verdict = known(module, use.name)
        shown = module.source(use.node)
        if verdict is None or verdict.row is None:
            return self.finding(
                module, use.node, f"`{shown}` belongs to CUDA's runtime, which does not exist on Gaudi", code=code
            )  # fmt: skip
        instead = f"; `{verdict.target}` is the nearest" if verdict.target else ""
        return self.finding(
            module, use.node, f"`{shown}` is not rewritten: {inside(verdict.note)}{instead}",
            row=part, code=code, safety="manual",
        )  # fmt: skip
