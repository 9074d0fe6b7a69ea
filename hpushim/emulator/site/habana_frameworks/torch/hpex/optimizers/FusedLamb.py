"""LAMB under the vendor's name."""

from __future__ import annotations

from habana_frameworks.torch import _hpex_C
from habana_frameworks.torch import core as htcore

import torch
from torch.optim import Optimizer


class FusedLamb(Optimizer):
    """Global clipping, Adam moments with decoupled decay, and a step scaled by the ratio of norms."""

    def __init__(
        self,
        params,
        lr=1e-3,
        bias_correction=True,
        betas=(0.9, 0.999),
        eps=1e-6,
        weight_decay=0.01,
        amsgrad=False,
        adam_w_mode=True,
        grad_averaging=True,
        set_grad_none=True,
        max_grad_norm=1.0,
        use_lamb=False,
        fused=False,
        dtype=None,
    ):
        if amsgrad:
            raise RuntimeError("FusedLamb does not support the AMSGrad variant.")
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "max_grad_norm": max_grad_norm,
        }
        super().__init__(params, defaults)
        self.fused, self.dtype = fused, dtype
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.set_grad_none, self.use_lamb = set_grad_none, use_lamb
        self.device = self.param_groups[0]["params"][0].device

    def zero_grad(self):
        """Drop the gradients, or zero them if ``set_grad_none`` is off."""
        super().zero_grad(set_to_none=self.set_grad_none)

    @torch.compiler.disable()
    @torch.no_grad()
    def step(self, closure=None):
        """One step; returns the closure's loss, or None."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        divisor = self._clip_divisor()
        for group in self.param_groups:
            htcore.step_closure._mark_step_if_lazy()
            group["step"] = group.get("step", 0) + 1
            for p in group["params"]:
                if p.grad is not None:
                    self._step_one(group, p, divisor)
        htcore.step_closure._mark_step_if_lazy()
        return loss

    def _clip_divisor(self):
        """What gradients are divided by: norm over limit where that is above one, else one."""
        limit = self.defaults["max_grad_norm"]
        grads = [
            p.grad for group in self.param_groups for p in group["params"] if p.grad is not None
        ]
        if any(g.is_sparse for g in grads):
            raise RuntimeError(
                "Lamb does not support sparse gradients, consider SparseAdam instead."
            )
        if limit is None or not grads:
            return torch.ones(1, device=self.device)
        grads = [g if self.dtype is None else g.to(self.dtype) for g in grads]
        return _hpex_C.fused_lamb_norm(grads, limit)

    def _step_one(self, group, p, divisor):
        state = self.state[p]
        if not state:
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        beta1, beta2 = group["betas"]
        grad = p.grad / divisor.to(p.grad.dtype)
        state["exp_avg"].mul_(beta1).add_(
            grad, alpha=1.0 - beta1 if group["grad_averaging"] else 1.0
        )
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1.0 - beta2)
        corrected = group["bias_correction"]
        first = state["exp_avg"] / (1.0 - beta1 ** group["step"] if corrected else 1.0)
        second = state["exp_avg_sq"] / (1.0 - beta2 ** group["step"] if corrected else 1.0)
        update = first / (second.sqrt() + group["eps"])
        if group["weight_decay"] != 0:
            update = update + p * group["weight_decay"]
        if group["weight_decay"] != 0 or self.use_lamb:
            ours, theirs = torch.linalg.vector_norm(p), torch.linalg.vector_norm(update)
            update = update * torch.where(theirs > 0, ours / theirs, torch.ones_like(ours))
        p.add_(update, alpha=-group["lr"])
