"""Streams, events and waiting for the device."""

from __future__ import annotations

import ast

from hpushim.engine.rules.references import find
from hpushim.engine.rules.rule import Code, Module, Yield
from hpushim.matrix import Verdict

from ..analysis.names import called
from ..bases.torch_name import Name, NameRule, by_name
from ..edits.spelling import agnostic

#: ``with torch.cuda.stream(stream):``; torch 2.6 has no such function for every device.
_ENTERED = "torch.cuda.stream"


class StreamName(NameRule):
    """``torch.cuda.synchronize``, ``Stream``, ``Event``."""

    HPU412 = Code("cuda-stream", severity="error", fix=("safe", "manual"), lower=by_name("warning"))
    HPU413 = Code("cuda-event", severity="error", fix=("safe", "manual"))
    HPU414 = Code("cuda-synchronize", fix=("safe", "manual"))

    def assess(self, module: Module, use: Name, code: str) -> Yield:
        """Streams and events stay CUDA's in a file that enters a stream with CUDA's function, in the agnostic style as well."""
        waits = code == "HPU414"
        if agnostic(module) and not waits and any(find(module, _ENTERED)):
            yield self.quiet(module, use, code, use.name, harmless=False)
        else:
            yield from super().assess(module, use, code)

    droppable = frozenset({"synchronize"})  # a process waits for its own device

    def gone(
        self, module: Module, use: Name, verdict: Verdict | None
    ) -> list[ast.expr | ast.keyword]:
        call = called(module, use.node)
        if use.below == "synchronize" and call is not None:
            return [*call.args, *call.keywords]  # Gaudi's takes no device
        return super().gone(module, use, verdict)
