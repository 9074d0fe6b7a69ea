"""Streams, events and waiting for the card."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar

from ..analysis.names import called
from ..bases.torch_name import Name, NameRule

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module
    from hpushim.matrix import Verdict


class StreamName(NameRule):
    """``torch.cuda.synchronize``, ``Stream``, ``Event``."""

    code = "HPU412"
    name = "cuda-stream"
    severity = "error"
    table: ClassVar[dict[str, str]] = {
        "Stream": "HPU412",
        "Stream.": "HPU412",
        "stream": "HPU412",
        "StreamContext": "HPU412",
        "current_stream": "HPU412",
        "default_stream": "HPU412",
        "set_stream": "HPU412",
        "ExternalStream": "HPU412",
        "get_stream_from_external": "HPU412",
        "Event": "HPU413",
        "Event.": "HPU413",
        "synchronize": "HPU414",
        "set_sync_debug_mode": "HPU414",
        "get_sync_debug_mode": "HPU414",
    }
    careful = frozenset({"set_sync_debug_mode", "get_sync_debug_mode"})
    card: ClassVar[dict[str, int]] = {"current_stream": 0, "default_stream": 0}
    also: ClassVar[dict[str, str]] = {"HPU413": "cuda-event", "HPU414": "cuda-synchronize"}

    def gone(
        self, module: Module, use: Name, verdict: Verdict | None
    ) -> list[ast.expr | ast.keyword]:
        call = called(module, use.node)
        if use.below == "synchronize" and call is not None:
            return [*call.args, *call.keywords]  # Gaudi's takes no device
        return super().gone(module, use, verdict)
