"""Exponential moving average of a model's weights under the vendor's name."""

from __future__ import annotations

import math
from copy import deepcopy

from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy

import torch
from torch import nn

hpu = torch.device("hpu")


def is_parallel(model):
    """True for a model inside DataParallel or DistributedDataParallel."""
    return type(model) in (nn.parallel.DataParallel, nn.parallel.DistributedDataParallel)


def copy_attr(a, b, include=(), exclude=()):
    """Copy public attributes of ``b`` to ``a``: those in ``include`` (all if empty) that are not in ``exclude``."""
    for name, value in b.__dict__.items():
        wanted = not include or name in include
        if wanted and not name.startswith("_") and name not in exclude:
            setattr(a, name, value)


class FusedEMA:
    """Keeps ``ema``, an evaluation copy of the model whose weights follow it with a ramped decay."""

    def __init__(self, model: nn.Module, decay: float = 0.9999, updates: float = 0):
        if decay < 0.0:
            raise ValueError(f"FusedEMA: decay is {decay}; expected 0 or more")
        self.ema = deepcopy(model.module if is_parallel(model) else model).eval()
        self.decay = lambda x: decay * (1 - math.exp(-x / 2000))
        self.updates = updates
        self.updated_ema = list(self.ema.state_dict().values())

    @torch.no_grad()
    def update(self, model):
        """Move every floating entry of the average towards ``model``'s: ``ema * d + (1 - d) * model``."""
        _mark_step_if_lazy()
        self.updates += 1
        kept = self.decay(self.updates)
        for average, value in zip(self.updated_ema, model.state_dict().values(), strict=True):
            if average.is_floating_point():
                average.mul_(kept).add_(value.to(average.dtype), alpha=1.0 - kept)
        _mark_step_if_lazy()

    def update_attr(self, model, include=(), exclude=("process_group", "reducer")):
        """Copy the model's plain attributes to the average."""
        copy_attr(self.ema, model, include, exclude)
