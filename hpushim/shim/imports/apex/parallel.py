"""``apex.parallel``, said with torch: DDP, synchronised batch norms and the Reducer."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel as _TorchDDP

SyncBatchNorm = torch.nn.SyncBatchNorm


class DistributedDataParallel(_TorchDDP):  # type: ignore[misc]
    """torch's DistributedDataParallel; apex's own options have no counterpart."""

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(module)


def convert_syncbn_model(module: Any, process_group: Any = None, **kwargs: Any) -> Any:
    """Every batch norm of the model synchronised, by torch."""
    return torch.nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)


def create_syncbn_process_group(group_size: int) -> Any:
    """A group of the ``group_size`` processes among which this one is; None for all of them."""
    import torch.distributed as dist

    size = dist.get_world_size()
    if group_size in (0, size):
        return None
    if size < group_size or size % group_size:
        raise ValueError(f"{size} processes do not divide into groups of {group_size}")
    mine = None
    for first in range(0, size, group_size):
        ranks = list(range(first, first + group_size))
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group
    return mine


class Reducer:
    """Averages a module's parameters, or a list of tensors, over all processes when requested."""

    def __init__(self, module_or_grads_list: Any) -> None:
        import torch.distributed as dist

        self.module = None
        if isinstance(module_or_grads_list, torch.nn.Module):
            self.module = module_or_grads_list
            for parameter in self.module.parameters():
                dist.broadcast(parameter.data, 0)
        self.grads = [] if self.module is not None else list(module_or_grads_list)

    def reduce(self) -> None:
        """Adds up the gradients, or the tensors of the list, and divides by the number of processes."""
        import torch.distributed as dist

        if self.module is not None:
            self.grads = [p.grad for p in self.module.parameters() if p.grad is not None]
        for tensor in self.grads:
            dist.all_reduce(tensor)
            tensor /= dist.get_world_size()
