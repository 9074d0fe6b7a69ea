"""Momentum on gradients that carry the learning rate already (as FusedLars leaves them), under the vendor's name."""

from __future__ import annotations

from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

hpu = torch.device("hpu")


def resource_apply_momentum(
    params_momentum_buffer_list: list[Tensor],
    d_p_list: list[Tensor],
    *,
    momentum: float,
    lr: float,
    nesterov: bool,
):
    """One step in place over ``[param, buffer, param, buffer, …]``; a buffer of None starts there.

    The first step *adds* the gradient and later ones subtract it: so does the vendor's package in its public
    release 1.19, and recipes reach this step with a warm-up rate near zero.
    """
    for i, d_p in enumerate(d_p_list):
        param, buffer = params_momentum_buffer_list[2 * i : 2 * i + 2]
        if buffer is None:
            if momentum != 0:
                params_momentum_buffer_list[2 * i + 1] = d_p.detach().clone()
            param.add_(d_p)
        else:
            buffer.mul_(momentum).sub_(d_p)
            param.add_(buffer)


class FusedResourceApplyMomentum(Optimizer):
    """``buffer = buffer * momentum - grad; param += buffer``; lr and weight decay are the wrapper's business."""

    def __init__(self, params, lr, momentum=0, weight_decay=0, nesterov=False):
        for what, value in (
            ("learning rate", lr),
            ("momentum value", momentum),
            ("weight_decay value", weight_decay),
        ):
            if value < 0.0:
                raise ValueError(f"Invalid {what}: {value}")
        if nesterov and momentum <= 0:
            raise ValueError("Nesterov momentum requires a momentum")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        """One step; returns the closure's loss, or None."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            pairs = [t for p in params for t in (p, self.state[p].get("momentum_buffer"))]
            grads = [p.grad for p in params]
            _mark_step_if_lazy()
            resource_apply_momentum(
                pairs, grads, momentum=group["momentum"], lr=group["lr"], nesterov=group["nesterov"]
            )
            _mark_step_if_lazy()
            for p, buffer in zip(params, pairs[1::2], strict=True):
                self.state[p]["momentum_buffer"] = buffer
        return loss
