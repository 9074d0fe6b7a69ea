"""What the shim reads of the vendor's package, and what happens where a release has it not.

The package is closed after release 1.19 and its names come and go, so everything that the shim requests from it is in this
list; a test holds the sources of the shim to it. Names of ``torch.hpu`` are read when a CUDA call needs them.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Literal, NamedTuple

from hpushim.errors import HpushimError

PACKAGE = "habana_frameworks.torch"
Absent = Literal["stays off", "refuses", "the call raises", "does without"]


class Read(NamedTuple):
    """A name, the CUDA names (or what else) that need it, and what happens where it is absent."""

    name: str
    needed_by: str
    absent: Absent


READS = (
    Read("habana_frameworks", "finding a Gaudi", "stays off"),
    Read("habana_frameworks.torch", "the device itself", "refuses"),
    Read("torch.hpu.is_available", "finding a Gaudi", "refuses"),
    Read("torch.hpu.Stream", "torch.cuda.Stream", "refuses"),
    Read("torch.hpu.Event", "torch.cuda.Event", "refuses"),
    Read("habana_frameworks.torch.utils.internal", "marks in lazy mode", "does without"),
    Read("habana_frameworks.torch.core", "marks in lazy mode", "does without"),
    Read("habana_frameworks.torch.distributed.hccl", "the backend nccl", "does without"),
    Read("habana_frameworks.torch.hpex.optimizers", "apex.optimizers.FusedLAMB", "the call raises"),
    Read("torch.hpu.device_count", "torch.cuda.device_count, pynvml", "the call raises"),
    Read("torch.hpu.get_device_name", "torch.cuda.get_device_name and _properties", "the call raises"),
    Read("torch.hpu.set_device", "torch.cuda.set_device", "the call raises"),
    Read("torch.hpu.synchronize", "torch.cuda.synchronize", "the call raises"),
    Read("torch.hpu.current_stream", "torch.cuda.current_stream", "the call raises"),
    Read("torch.hpu.default_stream", "torch.cuda.default_stream", "the call raises"),
    Read("torch.hpu.set_stream", "torch.cuda.set_stream", "the call raises"),
    Read("torch.hpu.stream", "torch.cuda.stream", "the call raises"),
    Read("torch.hpu.memory_allocated", "torch.cuda.memory_allocated", "the call raises"),
    Read("torch.hpu.max_memory_allocated", "torch.cuda.max_memory_allocated", "the call raises"),
    Read("torch.hpu.memory_stats", "torch.cuda.memory_stats", "the call raises"),
    Read("torch.hpu.mem_get_info", "torch.cuda.mem_get_info and get_device_properties", "the call raises"),
    Read("torch.hpu.get_device_properties", "multi_processor_count of torch.cuda.get_device_properties", "the call raises"),
    Read("torch.hpu.reset_peak_memory_stats", "torch.cuda.reset_peak_memory_stats", "the call raises"),
    Read("torch.hpu.reset_accumulated_memory_stats", "torch.cuda.reset_accumulated_memory_stats", "the call raises"),
    Read("torch.hpu.random.manual_seed_all", "torch.cuda.manual_seed", "the call raises"),
    Read("torch.hpu.random.seed", "torch.cuda.seed", "the call raises"),
    Read("torch.hpu.random.initial_seed", "torch.cuda.initial_seed", "the call raises"),
    Read("torch.hpu.random.get_rng_state", "torch.cuda.get_rng_state", "the call raises"),
    Read("torch.hpu.random.set_rng_state", "torch.cuda.set_rng_state", "the call raises"),
    Read("torch.hpu.random.default_generators", "torch.cuda.default_generators", "does without"),
)  # fmt: skip


def missing(torch: Any) -> tuple[Read, ...]:
    """The names of ``torch.hpu`` that this release has not. The package has been imported."""
    return tuple(
        read
        for read in READS
        if read.name.startswith("torch.hpu.") and not _has(torch, read.name.split(".")[1:])
    )


def _has(holder: Any, path: list[str]) -> bool:
    for part in path:
        if not hasattr(holder, part):
            return False
        holder = getattr(holder, part)
    return True


def require(torch: Any) -> tuple[Read, ...]:
    """Raises HpushimError where the shim cannot work without what is missing; returns the rest of it."""
    gone = missing(torch)
    needed = [read.name for read in gone if read.absent == "refuses"]
    if needed:
        raise HpushimError(
            f"the Gaudi software here ({_release()}) has no {', '.join(needed)}, without which hpushim cannot work; "
            "expected release 1.18 or newer: update it, or set HPUSHIM=off"
        )
    return gone


def explained(gone: tuple[Read, ...]) -> str:
    """One line about names that are missing."""
    names = "; ".join(f"{read.name} (for {read.needed_by})" for read in gone)
    return f"the Gaudi software here ({_release()}) has no {names}: a CUDA call that needs it will raise"


def _release() -> str:
    import importlib.metadata

    for name in ("habana-torch-plugin", "habana_torch_plugin"):
        try:
            return f"habana-torch-plugin {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of an unknown release"


def is_lazy() -> bool:
    """Does the bridge collect operators until a mark? Where it does not say, the variable that decides it does."""
    try:
        internal = importlib.import_module(f"{PACKAGE}.utils.internal")
        return bool(internal.is_lazy())
    except (ImportError, AttributeError):
        return os.environ.get("PT_HPU_LAZY_MODE", "0").strip() == "1"


def mark_step() -> None:
    """Ends the graph that lazy mode collects; nothing where the bridge has no such call, as releases without lazy mode."""
    try:
        mark = importlib.import_module(f"{PACKAGE}.core").mark_step
    except (ImportError, AttributeError):
        return
    mark()


def register_hccl() -> None:
    """Makes the backend hccl known; later releases do so by themselves."""
    try:
        importlib.import_module(f"{PACKAGE}.distributed.hccl")
    except ImportError:
        import torch

        if not hasattr(torch.distributed.Backend, "HCCL"):
            raise


def migration_toolkit() -> bool:
    """Has PT_HPU_GPU_MIGRATION requested the vendor's own migration toolkit, which patches what the shim patches?"""
    return os.environ.get("PT_HPU_GPU_MIGRATION", "").strip().lower() in ("1", "true", "yes", "on")
