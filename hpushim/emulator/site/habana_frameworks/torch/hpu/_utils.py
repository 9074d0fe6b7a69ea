"""Device indices and module ids."""

from __future__ import annotations

import os
from typing import Any

import torch

HABANA_VISIBLE_MODULES_VAR = "HABANA_VISIBLE_MODULES"
HLS_MODULE_ID_VAR = "HLS_MODULE_ID"


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index that ``device`` (index, name, torch.device, None) means.

    A device without an index, and None, mean the current one if ``optional``; -1 means the CPU if ``allow_cpu``.
    """
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    index = None
    if isinstance(device, torch.device):
        allowed = ("hpu", "cpu") if allow_cpu else ("hpu",)
        if device.type not in allowed:
            raise ValueError(f"Expected a {' or '.join(allowed)} device, but got: {device}")
        index = -1 if device.type == "cpu" else device.index
    if index is None:
        if not optional:
            raise ValueError(
                f"Expected a torch.device with a specified index or an integer, but got: {device}"
            )
        return 0
    return index


def _get_module_id_from_environ() -> int:
    return int(os.getenv(HLS_MODULE_ID_VAR) or -1)


def _get_available_modules_from_environ() -> list[int]:
    listed = os.getenv(HABANA_VISIBLE_MODULES_VAR) or "0,1,2,3,4,5,6,7"
    try:
        return [int(one) for one in listed.split(",")]
    except ValueError:
        raise ValueError(
            f"{HABANA_VISIBLE_MODULES_VAR} is {listed!r}; expected module ids from 0 to 7 with commas between"
        ) from None
