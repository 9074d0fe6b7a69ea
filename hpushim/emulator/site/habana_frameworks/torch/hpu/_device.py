"""The device itself: how many, which one, its name; one device per process, always hpu:0."""

from __future__ import annotations

import os
from typing import Any

from habana_frameworks.torch._not_modelled import not_modelled
from habana_frameworks.torch.hpu import _utils
from habana_frameworks.torch.hpu._utils import HLS_MODULE_ID_VAR, _get_device_index

import torch
from hpushim.emulator import device as emulated
from hpushim.emulator import profiles
from torch.types import Device

_device_t = torch.device | str | int | None
_initialized = False


def init() -> None:
    """Initialize the device now rather than on first use."""
    _lazy_init()


def _lazy_init() -> None:
    global _initialized
    if _initialized:
        return
    emulated.load()
    _initialized = True
    # Without it torch's checkpointing would look for CUDA random state.
    from torch.utils.checkpoint import DefaultDeviceType

    DefaultDeviceType.set_device_type("hpu")


def is_initialized() -> bool:
    """True once the device was used."""
    return _initialized


def is_available() -> bool:
    """True: the emulated device is there whenever this package is importable."""
    return device_count() > 0


def device_count():
    """Devices that a launcher may use: ``HPUSHIM_DEVICES``, default 1 (emulated)."""
    return emulated.device_count()


def is_bf16_supported():
    """True on every generation."""
    return is_available()


def current_device() -> int:
    """Always 0: a process has one device."""
    _lazy_init()
    return 0


def synchronize() -> None:
    """Wait for the device; emulated work is done already, the ledger counts the call."""
    _lazy_init()
    emulated.synchronize()


def _checked(device) -> int:
    _lazy_init()
    index = _get_device_index(device, optional=True)
    if not 0 <= index < device_count():
        raise AssertionError("Invalid device id")
    return index


def get_device_name(device: _device_t | None = None) -> str:
    """``GAUDI``, ``GAUDI2`` or ``GAUDI3``, by the emulated generation."""
    _checked(device)
    return profiles.current().device_name


def get_device_capability(device: _device_t | None = None) -> str:
    """The software release (a string, not a pair as on CUDA)."""
    _checked(device)
    return profiles.current().release


def get_device_properties(device: _device_t | None = None) -> str:
    """A description in one string, as on Gaudi: there are no attributes such as total_memory."""
    _checked(device)
    profile = profiles.current()
    cores = profile.tensor_cores
    mask = f", tpcEnabledMask={(1 << cores) - 1}" if cores else ""
    return f"(name='{profile.device_name}', dramSize={profile.memory_bytes}{mask}, emulated=True)"


def can_device_access_peer(device: _device_t, peer_device: _device_t) -> bool:
    """True for two different valid indices; AssertionError otherwise."""
    first, second = _checked(device), _checked(peer_device)
    if first == second:
        raise AssertionError("Both the ids are same.")
    return True


def get_gencode_flags() -> str:
    """Empty: there are no compiler flags of this kind."""
    return ""


def get_arch_list() -> list[str]:
    """The device's name, in a list."""
    return [get_device_name()]


def set_device(device: _device_t) -> None:
    """Record which device (module) the process takes; inside the process it stays hpu:0."""
    index = _get_device_index(device, optional=True)
    if os.getenv(HLS_MODULE_ID_VAR):
        # A launcher chose already, and its choice holds.
        return
    modules = _utils._get_available_modules_from_environ()
    count = max(device_count(), len(modules) if os.getenv(_utils.HABANA_VISIBLE_MODULES_VAR) else 0)
    if not 0 <= index < min(count, len(modules)):
        raise AssertionError(
            f"set_device({index}): the emulated machine has {count} device(s); use an index below that, "
            "or set HPUSHIM_DEVICES"
        )
    if count > 1:
        os.environ[HLS_MODULE_ID_VAR] = str(modules[index])


class device:
    """``with torch.hpu.device(index)``: only 0 and the process's own module id are accepted."""

    def __init__(self, device: Any):
        index = _get_device_index(device, optional=True)
        module = _utils._get_module_id_from_environ()
        if index not in (-1, 0, module):
            raise AssertionError(
                f"Requested device_id={index} is different from env_device_id={module}"
            )
        self.idx = module
        self.prev_idx = -1

    def __enter__(self):
        _lazy_init()

    def __exit__(self, type: Any, value: Any, traceback: Any):
        return False


class device_of(device):
    """:class:`device` of a tensor; of one elsewhere nothing, or AssertionError where a launcher chose the device."""

    def __init__(self, obj):
        on_hpu = obj.device.type == "hpu"
        if not on_hpu and os.getenv(HLS_MODULE_ID_VAR):
            raise AssertionError(
                f"device_of: the tensor is on {obj.device}, and {HLS_MODULE_ID_VAR} names a device of the machine; leave it out"
            )
        super().__init__(obj.get_device() if on_hpu else -1)


def memory_usage(device: Device | int | None = None) -> int:
    """Bytes in use (not a percentage, as on CUDA)."""
    _checked(device)
    return emulated.memory_stats()["in_use"]


def utilization(device: Device | int | None = None) -> int:
    """Not available: an emulated device has no load to measure."""
    raise not_modelled(
        "torch.hpu.utilization",
        "guard the call, or read it on a Gaudi (it needs the pyhlml package)",
    )
