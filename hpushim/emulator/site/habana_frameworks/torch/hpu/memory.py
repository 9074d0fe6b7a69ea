"""Memory counters of the emulated device; all sizes in bytes.

What is in use is a lower bound of what a Gaudi needs: there each block is rounded up to an alignment that its driver
states (unknown here), and graphs take a workspace, whose size their compiler decides.
"""

from __future__ import annotations

import warnings
from typing import Any

from habana_frameworks.torch.hpu._utils import _get_device_index

import torch
from hpushim.emulator import device as emulated
from hpushim.emulator import profiles

_device_t = torch.device | str | int | None


def _check(device) -> None:
    index = _get_device_index(device, optional=True)
    if not 0 <= index < emulated.device_count():
        raise AssertionError("Invalid device id")


def memory_stats(device: _device_t | None = None) -> dict[str, Any]:
    """Ten counters under the vendor's names.

    ``Limit`` is the size of the device's memory, ``InUse`` and ``MaxInUse`` what tensors hold now and at most.
    """
    _check(device)
    found = emulated.memory_stats()
    return {
        "Limit": found["limit"] or profiles.current().memory_bytes,
        "InUse": found["in_use"],
        "MaxInUse": found["peak"],
        "NumAllocs": found["allocations"],
        "NumFrees": found["frees"],
        "ActiveAllocs": found["live"],
        "MaxAllocSize": found.get("largest", found["peak"]),
        "TotalSystemAllocs": found["allocations"],
        "TotalSystemFrees": found["frees"],
        "TotalActiveAllocs": found["live"],
    }


def memory_allocated(device: _device_t | None = None) -> int:
    """Bytes that tensors hold now."""
    return memory_stats(device)["InUse"]


def max_memory_allocated(device: _device_t | None = None) -> int:
    """Most bytes that tensors held since the start or the last reset."""
    return memory_stats(device)["MaxInUse"]


def reset_peak_memory_stats(device: _device_t | None = None) -> None:
    """Start the peak anew."""
    _check(device)
    emulated.reset_peak_memory()


def reset_accumulated_memory_stats(device: _device_t | None = None) -> None:
    """Set the numbers of allocations and frees to zero."""
    _check(device)
    emulated.reset_accumulated_memory()


def memory_reserved(device: _device_t | None = None) -> int:
    """The whole pool, as on Gaudi: the limit."""
    return memory_stats(device)["Limit"]


def max_memory_reserved(device: _device_t | None = None) -> int:
    """The whole pool, as on Gaudi: the limit."""
    return memory_stats(device)["Limit"]


def memory_cached(device: _device_t | None = None) -> int:
    """Old name of :func:`memory_reserved`."""
    warnings.warn(
        "torch.hpu.memory_cached has been renamed to torch.hpu.memory_reserved", FutureWarning, 2
    )
    return memory_reserved(device)


def max_memory_cached(device: _device_t | None = None) -> int:
    """Old name of :func:`max_memory_reserved`."""
    warnings.warn(
        "torch.hpu.max_memory_cached has been renamed to torch.hpu.max_memory_reserved",
        FutureWarning,
        2,
    )
    return max_memory_reserved(device)


def mem_get_info(device: _device_t | None = None) -> tuple:
    """(free, total) bytes."""
    stats = memory_stats(device)
    return stats["Limit"] - stats["InUse"], stats["Limit"]


def memory_summary(device: _device_t | None = None) -> str:
    """The counters as a table."""
    _check(device)
    rows = [
        f"{name:<20}{value:>20} ({value / 2**30:.2f}) GB"
        for name, value in memory_stats(device).items()
    ]
    head = (
        "PyTorch HPU memory summary (emulated: a lower bound, without alignment and workspace), "
        f"device ID {_get_device_index(device, optional=True)}"
    )
    return "\n".join([head, "-" * len(head), *rows]) + "\n"
