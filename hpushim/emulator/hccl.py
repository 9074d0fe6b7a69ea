"""The backend "hccl": collectives of emulated hpu tensors, carried by gloo on the host memory that they are."""

from __future__ import annotations

import datetime
from typing import Any

from hpushim.emulator import device, ledger


def register() -> None:
    """Make "hccl" a torch.distributed backend for hpu tensors; idempotent, nothing where torch lacks distributed."""
    import torch.distributed as dist

    if not dist.is_available() or not hasattr(dist, "ProcessGroupGloo"):
        return
    if "hccl" not in dist.Backend.backend_list:
        dist.Backend.register_backend("hccl", _create, devices=["hpu"])


def _create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """An hccl backend for one process group: called by torch for each group."""
    import torch.distributed as dist

    ledger.add_process_group("hccl", "hpu", size)
    return device.load().hccl_over(dist.ProcessGroupGloo(store, rank, size, timeout=timeout))
