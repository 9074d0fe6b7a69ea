"""Streams, events and waiting for the device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.base.code import Code

from ..analysis.names import called
from ..bases.torch_name import Name, NameRule, by_name

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module
    from hpushim.matrix import Verdict


class StreamName(NameRule):
    """``torch.cuda.synchronize``, ``Stream``, ``Event``."""

    HPU412 = Code("cuda-stream", severity="error", fix=("safe", "manual"), lower=by_name("warning"))
    HPU413 = Code("cuda-event", severity="error", fix=("safe", "manual"))
    HPU414 = Code("cuda-synchronize", fix=("safe", "manual"))

    droppable = frozenset({"synchronize"})  # a process waits for its own device

    def gone(
        self, module: Module, use: Name, verdict: Verdict | None
    ) -> list[ast.expr | ast.keyword]:
        call = called(module, use.node)
        if use.below == "synchronize" and call is not None:
            return [*call.args, *call.keywords]  # Gaudi's takes no device
        return super().gone(module, use, verdict)
