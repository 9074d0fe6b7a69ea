"""What ``torch.cuda.get_device_properties`` answers for a Gaudi: the fields that mean something there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hpushim import settings
from hpushim.shim import log


@dataclass(frozen=True)
class DeviceProperties:
    """Name, memory in bytes and the capability that CUDA code reads; other CUDA fields do not exist here.

    ``multi_processor_count``, which programs log, is the number of tensor processor cores where the device says it, and that is reported.
    """

    name: str
    major: int
    minor: int
    total_memory: int
    is_integrated: int = 0
    is_multi_gpu_board: int = 0

    def __getattr__(self, field: str) -> int:
        cores = _tensor_cores() if field == "multi_processor_count" else 0
        if not cores:
            raise AttributeError(
                f"HPU112 a Gaudi has no CUDA device property {field!r}; it has name, total_memory, major and minor"
            )
        log.warn(
            "HPU112",
            f"a Gaudi has no streaming multiprocessors: multi_processor_count returns its {cores} tensor processor "
            "cores, which run no CUDA or Triton grid",
        )
        return cores


class Description(str):
    """Gaudi's description of a device, one text, with the fields that CUDA code reads."""

    fields: DeviceProperties

    def __new__(cls, text: str, fields: DeviceProperties) -> Description:
        made = super().__new__(cls, text)
        made.fields = fields
        return made

    def __getattr__(self, field: str) -> Any:
        return getattr(self.fields, field)


def of(hpu: Any) -> DeviceProperties:
    """The properties of the device behind ``torch.hpu``."""
    major, minor = capability()
    free_and_total = hpu.mem_get_info()
    return DeviceProperties(str(hpu.get_device_name()), major, minor, int(free_and_total[1]))


def _tensor_cores() -> int:
    """The cores that the device itself names, as bits of its ``tpcEnabledMask``; 0 where it names none."""
    import torch

    found = re.search(r"\btpcEnabledMask=(\d+)", str(torch.hpu.get_device_properties()))
    return int(found[1]).bit_count() if found else 0


def capability() -> tuple[int, int]:
    """The compute capability that CUDA code reads: ``(8, 0)``, or what ``HPUSHIM_CAPABILITY`` says.

    8.0 is the lowest at which CUDA code uses bf16. Raises HpushimError for a value that is no version.
    """
    major, _, minor = settings.read("HPUSHIM_CAPABILITY").partition(".")
    return int(major), int(minor or 0)
