"""LARS under the vendor's name: scales gradients, then lets the wrapped optimizer step."""

from __future__ import annotations

from habana_frameworks.torch import core as htcore

import torch
from torch.optim.optimizer import Optimizer


class FusedLars(Optimizer):
    """Wraps ``optimizer``; ``skip_mask[i]`` is 0 for parameters that get the plain learning rate."""

    def __init__(self, optimizer, skip_mask, eeta=0.001, eps=1e-8):
        self.optim, self.eeta, self.eps, self.skip_mask = optimizer, eeta, eps, skip_mask
        defaults = optimizer.defaults
        defaults.update({"skip_mask": skip_mask, "eeta": eeta, "eps": eps})
        super().__init__(optimizer.param_groups, defaults)
        self.state = self.optim.__getstate__()["state"]

    def zero_grad(self, set_to_none=False):
        """Zero the wrapped optimizer's gradients."""
        self.optim.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self):
        """Fold rate and decay into the gradients, then step the wrapped optimizer without decay."""
        decays = []
        for group in self.optim.param_groups:
            decays.append(group.get("weight_decay", 0))
            group["weight_decay"] = 0
            htcore.step_closure._mark_step_if_lazy()
            for p, scaled in zip(group["params"], self.skip_mask, strict=False):
                if p.grad is not None:
                    p.grad.copy_(
                        self._scaled(p, group["lr"], decays[-1]) if scaled else p.grad * group["lr"]
                    )
            htcore.step_closure._mark_step_if_lazy()
        self.optim.step()
        for group, decay in zip(self.optim.param_groups, decays, strict=True):
            group["weight_decay"] = decay

    def _scaled(self, p, lr, decay):
        weight, grad = torch.linalg.vector_norm(p), torch.linalg.vector_norm(p.grad)
        ratio = self.eeta * weight / (weight * decay + self.eps + grad)
        one = torch.ones_like(ratio)
        ratio = torch.where((weight > 0) & (grad > 0), ratio, one)
        return (p.grad + decay * p) * (ratio * lr)
