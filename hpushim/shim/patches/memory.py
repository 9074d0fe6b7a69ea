"""``torch.cuda`` memory: the counters that training code prints, from what HPU counts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.patch import APPROXIMATE, ERROR, EXACT, WARN, patch

Original = Callable[..., Any]


@patch("torch.cuda.memory:memory_allocated", row="torch.cuda.memory_allocated", level=EXACT)
@devices.of_device
def memory_allocated(original: Original, device: Any = None) -> int:
    """Bytes in use on the HPU."""
    import torch

    return int(torch.hpu.memory_allocated())


@patch("torch.cuda.memory:max_memory_allocated", row="torch.cuda.max_memory_allocated", level=EXACT)
@devices.of_device
def max_memory_allocated(original: Original, device: Any = None) -> int:
    """The most bytes in use since the last reset."""
    import torch

    return int(torch.hpu.max_memory_allocated())


@patch(
    "torch.cuda.memory:memory_reserved",
    row="torch.cuda.memory_reserved",
    level=APPROXIMATE,
    code="HPU401",
    note="Gaudi takes its whole pool at start; the allocated bytes are reported",
)
@patch("torch.cuda.memory:memory_cached", row="torch.cuda.memory_cached", level=APPROXIMATE)
@devices.of_device
def memory_reserved(original: Original, device: Any = None) -> int:
    """The allocated bytes: what code compares it with is the part that is in use."""
    import torch

    return int(torch.hpu.memory_allocated())


@patch(
    "torch.cuda.memory:max_memory_reserved",
    row="torch.cuda.max_memory_reserved",
    level=APPROXIMATE,
    code="HPU401",
    note="Gaudi takes its whole pool at start; the peak of the allocated bytes is reported",
)
@patch("torch.cuda.memory:max_memory_cached", row="torch.cuda.max_memory_cached", level=APPROXIMATE)
@devices.of_device
def max_memory_reserved(original: Original, device: Any = None) -> int:
    """The peak of the allocated bytes."""
    import torch

    return int(torch.hpu.max_memory_allocated())


@patch(
    "torch.cuda.memory:reset_peak_memory_stats",
    row="torch.cuda.reset_peak_memory_stats",
    level=EXACT,
)
@patch(
    "torch.cuda.memory:reset_max_memory_allocated",
    row="torch.cuda.reset_max_memory_allocated",
    level=EXACT,
)
@patch(
    "torch.cuda.memory:reset_max_memory_cached",
    row="torch.cuda.reset_max_memory_cached",
    level=EXACT,
)
@devices.of_device
def reset_peak_memory_stats(original: Original, device: Any = None) -> None:
    """Starts the peaks anew; CUDA too resets all of them for any of the three names."""
    import torch

    torch.hpu.reset_peak_memory_stats()


@patch(
    "torch.cuda.memory:reset_accumulated_memory_stats",
    row="torch.cuda.reset_accumulated_memory_stats",
    level=EXACT,
)
@devices.of_device
def reset_accumulated_memory_stats(original: Original, device: Any = None) -> None:
    """Starts the counts of allocations anew."""
    import torch

    torch.hpu.reset_accumulated_memory_stats()


class _Stats(OrderedDict[str, int]):
    """CUDA's flat counters; those that HPU has no counterpart of are 0."""

    def __missing__(self, key: str) -> int:
        return 0


@patch(
    "torch.cuda.memory:memory_stats",
    row="torch.cuda.memory_stats",
    level=APPROXIMATE,
    code="HPU401",
    note="Gaudi counts bytes in use, their peak and allocations; CUDA's other counters read 0",
)
@devices.of_device
def memory_stats(original: Original, device: Any = None) -> dict[str, int]:
    """CUDA's keys for what HPU counts."""
    import torch

    counted = torch.hpu.memory_stats()
    in_use = int(counted.get("InUse", torch.hpu.memory_allocated()))
    peak = int(counted.get("MaxInUse", torch.hpu.max_memory_allocated()))
    allocations = int(counted.get("NumAllocs", 0))
    frees = int(counted.get("NumFrees", 0))
    stats = _Stats()
    for kind in ("allocated_bytes", "active_bytes", "reserved_bytes", "requested_bytes"):
        for pool in ("all", "small_pool", "large_pool"):
            whole = pool != "small_pool"
            stats[f"{kind}.{pool}.current"] = in_use * whole
            stats[f"{kind}.{pool}.peak"] = peak * whole
            stats[f"{kind}.{pool}.allocated"] = 0
            stats[f"{kind}.{pool}.freed"] = 0
    stats["allocation.all.allocated"] = allocations
    stats["allocation.all.freed"] = frees
    stats["allocation.all.current"] = max(allocations - frees, 0)
    stats["num_alloc_retries"] = stats["num_ooms"] = 0
    return stats


@patch(
    "torch.cuda.memory:memory_stats_as_nested_dict",
    row="torch.cuda.memory_stats",
    level=APPROXIMATE,
)
@devices.of_device
def memory_stats_as_nested_dict(original: Original, device: Any = None) -> dict[str, Any]:
    """The same counters, a dictionary for each dot in their keys."""
    import torch

    nested: dict[str, Any] = {}
    for key, value in torch.cuda.memory_stats().items():
        *parents, last = key.split(".")
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    return nested


@patch("torch.cuda.memory:memory_summary", row="torch.cuda.memory_summary", level=APPROXIMATE)
@devices.of_device
def memory_summary(original: Original, device: Any = None, abbreviated: bool = False) -> str:
    """HPU's own table of its counters, which has no abbreviated form."""
    import torch

    return str(torch.hpu.memory_summary())


@patch("torch.cuda.memory:mem_get_info", row="torch.cuda.mem_get_info", level=EXACT)
@devices.of_device
def mem_get_info(original: Original, device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the HPU."""
    import torch

    free, total = torch.hpu.mem_get_info()
    return int(free), int(total)


@patch("torch.cuda.memory:empty_cache", row="torch.cuda.empty_cache", level=EXACT)
@patch("torch.cuda:ipc_collect", level=EXACT)
def nothing_to_give_back(original: Original) -> None:
    """Nothing is cached that could be given back."""


@patch(
    "torch.cuda.memory:set_per_process_memory_fraction",
    row="torch.cuda.set_per_process_memory_fraction",
    level=WARN,
    code="HPU404",
    note="Gaudi has no such limit; a device belongs to one process",
)
@devices.of_device
def set_per_process_memory_fraction(
    original: Original, fraction: float, device: Any = None
) -> None:
    """Accepted without effect."""


@patch(
    "torch.cuda.memory:get_per_process_memory_fraction",
    row="torch.cuda.get_per_process_memory_fraction",
    level=APPROXIMATE,
    optional=True,
)
@devices.of_device
def get_per_process_memory_fraction(original: Original, device: Any = None) -> float:
    """All of it."""
    return 1.0


@patch(
    "torch.cuda.memory:get_allocator_backend",
    row="torch.cuda.get_allocator_backend",
    level=APPROXIMATE,
)
def get_allocator_backend(original: Original) -> str:
    """``native``: code that reads it wants to know whether CUDA's asynchronous allocator is on."""
    return "native"


@patch(
    "torch.cuda.memory:memory_snapshot",
    "torch.cuda.memory:_record_memory_history",
    "torch.cuda.memory:_snapshot",
    "torch.cuda.memory:_dump_snapshot",
    level=ERROR,
)
def no_history(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Refused: the history of CUDA's caching allocator has no counterpart."""
    log.refuse(
        "HPU406",
        "the history of CUDA's allocator is not kept on HPU",
        "use torch.hpu.memory_stats() or the Gaudi profiler, and drop this call",
    )


@patch(
    "torch.cuda.memory:caching_allocator_alloc",
    "torch.cuda.memory:caching_allocator_delete",
    level=ERROR,
)
def no_raw_memory(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Refused: raw device pointers cannot be handed out."""
    log.refuse(
        "HPU418",
        "CUDA's allocator cannot be used for HPU memory",
        "allocate a tensor (torch.empty(…, device='hpu')) instead",
    )
