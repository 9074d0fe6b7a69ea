"""Sharing tensors among processes: CUDA hands its memory around, Gaudi cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.patch import ERROR, patch


@patch("torch.multiprocessing.reductions:reduce_tensor", level=ERROR)
def reduce_tensor(original: Callable[..., Any], tensor: Any) -> Any:
    """Sending an HPU tensor to another process is refused; CPU tensors go as ever."""
    if devices.is_hpu(tensor.device):
        log.refuse(
            "HPU418",
            "a tensor on HPU was sent to another process, and processes cannot share a Gaudi's memory",
            "send tensor.cpu(), or train with one process per card and torch.distributed",
        )
    return original(tensor)
