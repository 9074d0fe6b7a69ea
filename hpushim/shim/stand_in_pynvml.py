"""What of pynvml training scripts ask for, answered by ``torch.hpu``; anything else is refused, never made up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from hpushim.shim import log

CODE = "HPU620"
NOTE = "pynvml is not installed; hpushim answers names, counts and memory from torch.hpu (pyhlml is Gaudi's library)"


class NVMLError(Exception):
    """The base of pynvml's errors."""


class NVMLError_NotSupported(NVMLError):
    """A question that NVML has and Gaudi's tools answer elsewhere."""


@dataclass(frozen=True)
class _Memory:
    total: int
    free: int
    used: int


def nvmlInit() -> None:
    """Nothing to start."""


def nvmlInitWithFlags(flags: int) -> None:
    """Nothing to start."""


def nvmlShutdown() -> None:
    """Nothing to stop."""


def nvmlDeviceGetCount() -> int:
    """The cards that a launcher may use."""
    return int(torch.hpu.device_count())


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    """The index itself; raises NVMLError for one that does not exist."""
    if not 0 <= index < nvmlDeviceGetCount():
        raise NVMLError(f"no device {index}; expected one of {nvmlDeviceGetCount()}")
    return index


def nvmlDeviceGetName(handle: Any) -> str:
    """The name of the Gaudi."""
    return str(torch.hpu.get_device_name())


def nvmlDeviceGetMemoryInfo(handle: Any, version: Any = None) -> _Memory:
    """Bytes in all, free and used on the card of this process."""
    free, total = torch.hpu.mem_get_info()
    return _Memory(int(total), int(free), int(total) - int(free))


def nvmlDeviceGetUtilizationRates(handle: Any) -> Any:
    """Refused: torch does not know it."""
    log.note(CODE, "the utilization of a Gaudi is asked of hl-smi or pyhlml")
    raise NVMLError_NotSupported("not supported; ask hl-smi or pyhlml")


nvmlDeviceGetTemperature = nvmlDeviceGetPowerUsage = nvmlDeviceGetUtilizationRates

MODULES: dict[str, tuple[str, ...]] = {
    "pynvml": (
        "NVMLError", "NVMLError_NotSupported", "nvmlInit", "nvmlInitWithFlags", "nvmlShutdown", "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage",
    ),
}  # fmt: skip
