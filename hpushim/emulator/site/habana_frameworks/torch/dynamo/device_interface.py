"""What dynamo requires of a device."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch import hpu

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device


class HpuInterface(DeviceInterface):
    """Answers for device ``hpu``."""

    device = hpu.device
    Event = hpu.Event
    Stream = hpu.Stream
    current_device = staticmethod(hpu.current_device)
    set_device = staticmethod(hpu.set_device)
    device_count = staticmethod(hpu.device_count)
    stream = staticmethod(hpu.stream)
    current_stream = staticmethod(hpu.current_stream)
    set_stream = staticmethod(hpu.set_stream)
    synchronize = staticmethod(lambda device=None: hpu.synchronize())
    get_device_properties = staticmethod(hpu.get_device_properties)

    class Worker:
        """What compile workers ask; there are none without inductor."""

        set_device = staticmethod(hpu.set_device)
        current_device = staticmethod(hpu.current_device)
        get_device_properties = staticmethod(hpu.get_device_properties)

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """The number of the current stream."""
        return hpu.current_stream().stream_id

    @staticmethod
    def is_available() -> bool:
        """True."""
        return hpu.is_available()

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        """The device's name."""
        return hpu.get_device_name()

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """True."""
        return hpu.is_bf16_supported()

    @staticmethod
    def exchange_device(device: int) -> int:
        """The device does not change: there is one."""
        return 0

    maybe_exchange_device = exchange_device


def _register() -> None:
    """Register both spellings with dynamo, ``hpu`` and ``hpu:0``."""
    register_interface_for_device("hpu", HpuInterface)
    register_interface_for_device(torch.device("hpu", 0).type + ":0", HpuInterface)
