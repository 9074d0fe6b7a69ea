"""Sharing tensors among processes: CUDA hands its memory around, Gaudi cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim import handover
from hpushim.shim import devices, log
from hpushim.shim.patch import ERROR, WARN, patch


@patch(
    "torch:Tensor.share_memory_",
    "torch.nn:Module.share_memory",
    row="torch.nn.Module.share_memory",
    level=WARN,
)
def share_memory(original: Callable[..., Any], self: Any) -> Any:
    """Does nothing for what is on the device, as on CUDA, whose memory other processes then see; a Gaudi's they do not."""
    if hasattr(self, "parameters"):
        where = [one.device for one in self.parameters()]
    else:
        where = [self.device]
    if not any(map(devices.is_hpu, where)):
        return original(self)
    log.warn(
        "HPU322",
        "share_memory() does nothing for HPU tensors: other processes cannot access Gaudi memory; share a CPU copy",
    )
    return self


@patch("torch.multiprocessing.reductions:reduce_tensor", level=ERROR)
def reduce_tensor(original: Callable[..., Any], tensor: Any) -> Any:
    """Sending an HPU tensor to another process is refused; CPU tensors go as ever."""
    if devices.is_hpu(tensor.device):
        return handover.refuse(
            log.refusal(
                "HPU418",
                "a tensor on HPU was sent to another process, and processes cannot share a Gaudi's memory",
                "send tensor.cpu(), or train with one process per device and torch.distributed",
            )
        )
    return original(tensor)
