"""Memory of the device: counters, the cache, the allocator."""

from __future__ import annotations

from hpushim.engine.base.code import Code

from ..bases.torch_name import NameRule, by_name


class MemoryName(NameRule):
    """``torch.cuda.memory_allocated`` and its neighbours."""

    HPU401 = Code(
        "cuda-memory-statistics",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower=by_name("warning", "note"),
    )
    HPU402 = Code(
        "cuda-empty-cache", severity="error", fix=("safe", "manual"), lower=by_name("note")
    )
    HPU403 = Code(
        "cuda-memory-reset",
        severity="error",
        fix=("safe", "manual"),
        lower=by_name("warning", "note"),
    )
    HPU404 = Code("cuda-memory-limit", fix="safe", effort="hours")
    HPU405 = Code("cuda-allocator", severity="error", effort="hours")
    HPU406 = Code("cuda-memory-history", severity="error")
    HPU418 = Code("cuda-allocator-internals", severity="error", effort="hours")
