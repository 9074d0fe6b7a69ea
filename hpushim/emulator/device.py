"""The emulated device as Python sees it: a thin face over the C++ extension that the emulated package builds on.

Nothing here knows the vendor's names; ``habana_frameworks.torch.hpu`` spells these functions the vendor's way.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, TypedDict

from hpushim.emulator import build
from hpushim.errors import EmulatorError

if TYPE_CHECKING:
    import torch

_native: Any = None
_NORMS = ("batch_norm", "group_norm", "instance_norm", "layer_norm")  # their weights keep float32


class MemoryStats(TypedDict):
    """Counters of the emulated device's memory; sizes in bytes, exact, and so a lower bound of a Gaudi's, which rounds
    blocks up and takes a workspace for each graph."""

    limit: int  # 0: no limit
    in_use: int
    peak: int
    allocations: int  # since start, or since reset_accumulated_memory()
    frees: int
    allocated_total: int  # bytes handed out since start or reset
    freed_total: int
    live: int  # blocks now alive


def load() -> Any:
    """Build (first time) and load the C++ device; returns the extension. Raises EmulatorError with the reason."""
    global _native
    if _native is None:
        _native = build.load_extension()
    return _native


def is_loaded() -> bool:
    """True once the emulated device exists in this process."""
    return _native is not None


def device_count() -> int:
    """Emulated devices that launchers see (``HPUSHIM_DEVICES``, default 1); one process addresses only hpu:0."""
    found = os.environ.get("HPUSHIM_DEVICES", "1").strip() or "1"
    if not found.isdigit() or int(found) < 1:
        raise EmulatorError(
            f"HPUSHIM_DEVICES is {found!r}; expected a number of emulated devices from 1; unset it for 1"
        )
    return int(found)


def current_device() -> int:
    """The device index of this process: always 0, as on Gaudi."""
    return 0


def set_device(index: int) -> None:
    """Accept index 0; any other index raises RuntimeError, as the device guard does."""
    load().check_index(index)


def share_cpu_random(on: bool) -> None:
    """Let the hpu draw from the CPU's own default stream, so that a run equals a CPU run number by number.

    Two devices then share one stream, which no Gaudi does: for comparing runs only.
    """
    load().share_cpu_random(bool(on))
    if on:
        _answer_for_hpu()


@functools.cache
def _answer_for_hpu() -> None:
    """Has ``contiguous()`` and ``is_contiguous()`` answer for the strides of a Gaudi, where results keep the CPU's.

    torch calls no operator for either, so they are replaced.
    """
    import torch

    kind: Any = torch.Tensor
    rows = torch.contiguous_format
    on_hpu = load().is_contiguous_on_hpu
    make, plain_check = kind.contiguous, kind.is_contiguous

    def is_plain(tensor: Any, form: Any) -> bool:
        return (
            form is rows
            and tensor.device.type == "hpu"
            and type(tensor) in (kind, torch.nn.Parameter)
        )

    @functools.wraps(plain_check)
    def is_contiguous(self: Any, memory_format: Any = rows) -> bool:
        return bool(
            on_hpu(self)
            if is_plain(self, memory_format)
            else plain_check(self, memory_format=memory_format)
        )

    @functools.wraps(make)
    def contiguous(self: Any, memory_format: Any = rows) -> Any:
        if is_plain(self, memory_format) and plain_check(self) and not on_hpu(self):
            return self.clone(memory_format=rows)
        return make(self, memory_format=memory_format)

    kind.contiguous, kind.is_contiguous = contiguous, is_contiguous


def synchronize() -> None:
    """Wait for the device. Emulated work is done already; the call is counted in the ledger."""
    load().synchronize()


def memory_stats() -> MemoryStats:
    """The memory counters, in bytes."""
    stats: MemoryStats = load().memory_stats()
    return stats


def reset_peak_memory() -> None:
    """Set the peak to what is in use now."""
    load().reset_peak_memory()


def reset_accumulated_memory() -> None:
    """Set the allocation and free totals to zero."""
    load().reset_accumulated_memory()


def set_memory_limit(limit: int) -> None:
    """Refuse allocations beyond ``limit`` bytes in use with torch.OutOfMemoryError
    (as on Gaudi a plain RuntimeError under `faithful` and `strict`); 0 removes the limit."""
    load().set_memory_limit(int(limit))


def default_generator() -> torch.Generator:
    """The default generator of hpu:0."""
    generator: torch.Generator = load().default_generator()
    return generator


def manual_seed(seed: int) -> torch.Generator:
    """Seed the hpu generator: it then draws the stream that a CPU generator of that seed draws."""
    return default_generator().manual_seed(int(seed))


def seed() -> int:
    """Seed the hpu generator from the system; returns the seed."""
    return int(default_generator().seed())


def initial_seed() -> int:
    """The seed that the hpu generator was last given."""
    return int(default_generator().initial_seed())


def get_rng_state() -> torch.Tensor:
    """The generator's state, a CPU uint8 tensor."""
    return default_generator().get_state()


def set_rng_state(state: torch.Tensor) -> None:
    """Restore a state from get_rng_state()."""
    default_generator().set_state(state)


def set_autocast_lists(
    lower: list[str], float32: list[str], widest: list[str], lower_first: list[str] | None = None
) -> None:
    """Replace what ``torch.autocast("hpu")`` does, by operator name without ``aten::``; a name counts once.

    ``lower_first``: the first tensor only goes to the autocast dtype; ``lower``: all do; ``float32``: all go to
    float32; ``widest``: all go to the widest type among them. Order of precedence is this one.
    """
    first = lower_first if lower_first is not None else [name for name in lower if name in _NORMS]
    load().set_autocast_lists(list(lower), list(first), list(float32), list(widest))
