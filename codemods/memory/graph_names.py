"""CUDA graphs, and CUDA's own runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Finding

from ._names import Name, NameRule, known, said

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


class GraphName(NameRule):
    """``torch.cuda.CUDAGraph`` and ``torch.cuda.cudart``."""

    code = "HPU416"
    name = "cuda-graph"
    severity = "error"
    codes: ClassVar[dict[str, str]] = {
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

    def prepare(self, module: Module, use: Name) -> None:
        """Nothing: graphs are rewritten by hand."""

    def special(self, module: Module, use: Name, code: str) -> Iterator[Finding] | None:
        return self._by_hand(module, use, code)

    def _by_hand(self, module: Module, use: Name, code: str) -> Iterator[Finding]:
        part, verdict = known(module, use.name)
        shown = module.source(use.node)
        if verdict is None or verdict.row is None:
            yield self.finding(
                module, use.node, f"`{shown}` belongs to CUDA's runtime, which is not there on Gaudi", code=code
            )  # fmt: skip
            return
        instead = f"; `{verdict.target}` is the nearest" if verdict.target else ""
        yield self.finding(
            module, use.node, f"`{shown}` is not rewritten: {said(verdict.note)}{instead}",
            row=part, code=code, safety="manual",
        )  # fmt: skip
