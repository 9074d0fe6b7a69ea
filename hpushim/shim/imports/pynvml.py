"""What of pynvml training scripts request, answered by ``torch.hpu``; anything else is refused, never made up."""

from __future__ import annotations

import csv
import functools
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hpushim.errors import UnsupportedOnHpu

CODE = "HPU620"
NOTE = "pynvml is not installed; hpushim answers names, counts and memory from torch.hpu (pyhlml is Gaudi's library)"
ADVICE = "ask hl-smi or pyhlml"
NVML_TEMPERATURE_GPU = 0
_SECONDS = 10


class NVMLError(UnsupportedOnHpu):
    """The base of pynvml's errors."""


class NVMLError_NotSupported(NVMLError):
    """A question that NVML has and Gaudi's tools answer elsewhere."""


@dataclass(frozen=True)
class _Memory:
    total: int
    free: int
    used: int


@dataclass(frozen=True)
class _Utilization:
    gpu: int
    memory: int


def nvmlInit() -> None:
    """Nothing to start."""


def nvmlInitWithFlags(flags: int) -> None:
    """Nothing to start."""


def nvmlShutdown() -> None:
    """Nothing to stop."""


def nvmlDeviceGetCount() -> int:
    """The devices that a launcher may use."""
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
    """Bytes in all, free and used on the device of this process."""
    free, total = torch.hpu.mem_get_info()
    return _Memory(int(total), int(free), int(total) - int(free))


def nvmlDeviceGetUtilizationRates(handle: Any) -> _Utilization:
    """Percent of the device's compute that is busy, and of its memory that is used, both from hl-smi."""
    busy = _queried(handle, "utilization.aip")
    memory = nvmlDeviceGetMemoryInfo(handle)
    return _Utilization(round(busy), round(100 * memory.used / memory.total))


def nvmlDeviceGetTemperature(handle: Any, sensor: int = NVML_TEMPERATURE_GPU) -> int:
    """Degrees Celsius, from hl-smi."""
    return round(_queried(handle, "temperature.aip"))


def nvmlDeviceGetPowerUsage(handle: Any) -> int:
    """Milliwatts, from hl-smi."""
    return round(1000 * _queried(handle, "power.draw"))


def _queried(index: int, field: str) -> float:
    """One number from hl-smi; raises NVMLError_NotSupported where it does not give one."""
    tool = shutil.which("hl-smi")
    if tool is None:
        raise NVMLError_NotSupported(f"{CODE} {field}: hl-smi is not on the path; {ADVICE}")
    command = [tool, "-Q", f"index,{field}", "-f", "csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS)
        answers = {row[0].strip(): row[1].strip() for row in csv.reader(done.stdout.splitlines())}
        return float(answers[str(index)].split()[0])
    except (OSError, subprocess.SubprocessError, LookupError, ValueError) as error:
        raise NVMLError_NotSupported(
            f"{CODE} {field}: hl-smi gave no number ({error}); {ADVICE}"
        ) from None


def _not_supported(name: str, *args: Any, **kwargs: Any) -> Any:
    raise NVMLError_NotSupported(f"{CODE} pynvml.{name} has no counterpart here; {ADVICE}")


def unknown(name: str) -> Callable[..., Any] | None:
    """A function of NVML that raises as NVML does where a device lacks it; None for any other name."""
    return functools.partial(_not_supported, name) if name.startswith("nvml") else None


_NAMES = (
    "NVMLError", "NVMLError_NotSupported", "NVML_TEMPERATURE_GPU", "nvmlInit", "nvmlInitWithFlags", "nvmlShutdown",
    "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage",
)  # fmt: skip
MODULES = {"pynvml": {name: globals()[name] for name in _NAMES}}
