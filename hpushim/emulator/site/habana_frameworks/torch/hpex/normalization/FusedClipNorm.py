"""Clipping by the global 2-norm of the gradients under the vendor's name."""

from __future__ import annotations

from collections.abc import Iterable

from habana_frameworks.torch import _hpex_C
from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy

import torch


class FusedClipNorm:
    """``FusedClipNorm(parameters, max_norm).clip_norm(parameters)`` scales gradients in place."""

    def __init__(self, parameters: Iterable[torch.nn.parameter.Parameter], max_norm):
        listed = list(parameters)
        self.dtype = listed[0].dtype if listed else torch.float32
        self.max_norm_t = torch.full((1,), float(max_norm), dtype=self.dtype, device="hpu")
        self.norm_type = 2.0

    @torch.no_grad()
    def clip_norm(self, parameters):
        """Scale the gradients; returns their norm before that, a tensor of one element on hpu."""
        _mark_step_if_lazy()
        if isinstance(parameters, torch.Tensor):
            parameters = [parameters]
        grads = [p.grad for p in parameters if p.grad is not None]
        if not grads:
            return torch.tensor(0.0)
        total = _hpex_C.fused_norm(grads, self.max_norm_t, self.norm_type).to(self.dtype)
        _mark_step_if_lazy()
        return total
