"""Memory of the card: counters, the cache, the allocator."""

from __future__ import annotations

from typing import ClassVar

from hpushim.engine.rules.rule import Costs

from ..bases.torch_name import NameRule


class MemoryName(NameRule):
    """``torch.cuda.memory_allocated`` and its neighbours."""

    code = "HPU401"
    name = "cuda-memory-statistics"
    costs = Costs(hours=("HPU404",), none=("HPU405", "HPU406", "HPU418"))
    severity = "error"
    table: ClassVar[dict[str, str]] = {
        "memory_allocated": "HPU401",
        "max_memory_allocated": "HPU401",
        "memory_reserved": "HPU401",
        "max_memory_reserved": "HPU401",
        "memory_stats": "HPU401",
        "memory_stats_as_nested_dict": "HPU401",
        "memory_summary": "HPU401",
        "memory_usage": "HPU401",
        "device_memory_used": "HPU401",
        "list_gpu_processes": "HPU401",
        "host_memory_stats": "HPU401",
        "OutOfMemoryError": "HPU401",
        "empty_cache": "HPU402",
        "reset_peak_memory_stats": "HPU403",
        "reset_accumulated_memory_stats": "HPU403",
        "reset_max_memory_allocated": "HPU403",
        "reset_max_memory_cached": "HPU403",
        "memory_cached": "HPU403",
        "max_memory_cached": "HPU403",
        "mem_get_info": "HPU404",
        "set_per_process_memory_fraction": "HPU404",
        "get_per_process_memory_fraction": "HPU404",
        "MemPool": "HPU405",
        "MemPoolContext": "HPU405",
        "use_mem_pool": "HPU405",
        "CUDAPluggableAllocator": "HPU405",
        "change_current_allocator": "HPU405",
        "get_allocator_backend": "HPU405",
        "memory_snapshot": "HPU406",
        "_record_memory_history": "HPU406",
        "_snapshot": "HPU406",
        "_dump_snapshot": "HPU406",
        "memory._record_memory_history": "HPU406",
        "memory._snapshot": "HPU406",
        "memory._dump_snapshot": "HPU406",
        "_memory_viz": "HPU406",
        "caching_allocator_alloc": "HPU418",
        "caching_allocator_delete": "HPU418",
        "caching_allocator_enable": "HPU418",
        "ipc_collect": "HPU418",
    }
    careful = frozenset({"memory_stats", "memory_usage"})
    card: ClassVar[dict[str, int]] = dict.fromkeys(
        (
            "memory_allocated",
            "max_memory_allocated",
            "memory_reserved",
            "max_memory_reserved",
            "memory_summary",
            "memory_stats",
            "memory_usage",
            "memory_cached",
            "max_memory_cached",
            "reset_peak_memory_stats",
            "reset_accumulated_memory_stats",
            "reset_max_memory_allocated",
            "mem_get_info",
        ),
        0,
    )
    also: ClassVar[dict[str, str]] = {
        "HPU402": "cuda-empty-cache",
        "HPU403": "cuda-memory-reset",
        "HPU404": "cuda-memory-limit",
        "HPU405": "cuda-allocator",
        "HPU406": "cuda-memory-history",
        "HPU418": "cuda-allocator-internals",
    }
