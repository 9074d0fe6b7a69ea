"""Experimental helpers of the vendor's package: the generation, and finding what recompiles."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
import enum

from habana_frameworks.torch import hpu
from habana_frameworks.torch._not_modelled import module_getattr
from habana_frameworks.torch.utils.experimental.detect_recompilation import (
    const_shape_dataloader,
    data_dynamicity,
    detect_recompilation_auto_model,
)

from hpushim.emulator import profiles


class synDeviceType(enum.IntEnum):
    """Device generations, by the numbers of the device library."""

    synDeviceGaudi = 1
    synDeviceGaudi2 = 4
    synDeviceGaudi3 = 5


def _get_device_type() -> int:
    return {
        "gaudi1": synDeviceType.synDeviceGaudi,
        "gaudi2": synDeviceType.synDeviceGaudi2,
        "gaudi3": synDeviceType.synDeviceGaudi3,
    }[profiles.current().gaudi]


def _is_fp16_supported() -> bool:
    return _get_device_type() != synDeviceType.synDeviceGaudi


def _data_ptr(t) -> int:
    return t.data_ptr()


def _compute_stream() -> int:
    return 0


def _record_params(model=None, optimizer=None, force_model_update=False):
    """Nothing to record: the emulated HPU has no memory report."""


def _set_profiler_tracer_memory(device_id) -> int:
    return 0


__getattr__ = module_getattr(__name__)
