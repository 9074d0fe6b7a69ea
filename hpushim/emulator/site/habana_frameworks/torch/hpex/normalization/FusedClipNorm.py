"""Clipping by the global 2-norm of the gradients under the vendor's name."""

from __future__ import annotations

from collections.abc import Iterable

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
        norms = torch.stack([torch.linalg.vector_norm(g) for g in grads])
        total = torch.linalg.vector_norm(norms).reshape(1).to(self.dtype)
        factor = (self.max_norm_t / (total + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(factor.to(grad.dtype))
        _mark_step_if_lazy()
        return total
