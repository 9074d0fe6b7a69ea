"""SGD under the vendor's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy
from habana_frameworks.torch.utils.internal import is_lazy

import torch
from hpushim.emulator import calls
from torch.optim import Optimizer

try:
    from torch.optim.optimizer import required
except ImportError:  # torch dropped the marker; the vendor's default for lr stays "must be given"
    required = object()

_EMPTY_GROUP = "empty parameter groups with a fused optimizer"

hpu = torch.device("hpu")
cpu = torch.device("cpu")


class FusedSGD(Optimizer):
    """Stochastic gradient descent with momentum, dampening, Nesterov and weight decay."""

    def __init__(
        self,
        params: Iterable[torch.nn.parameter.Parameter],
        lr: float = required,
        momentum: float = 0,
        weight_decay: float = 0,
        dampening: float = 0,
        nesterov: bool = False,
    ):
        if lr is required:
            raise ValueError("FusedSGD needs lr; found none")
        named = {
            "learning rate": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "dampening": dampening,
        }
        for what, value in named.items():
            if not value >= 0.0:
                raise ValueError(f"Invalid {what} value: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "dampening": dampening,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)
        self.is_lazy = is_lazy()

    @torch.no_grad()
    def step(self, closure: Callable | None = None):
        """One step; returns the closure's loss, or None."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        _mark_step_if_lazy()
        for group in self.param_groups:
            given = [p for p in group["params"] if p.grad is not None]
            if not given and calls.refuses(_EMPTY_GROUP):
                calls.object_to(_EMPTY_GROUP)
            for p in given:
                self._step_one(group, p)
        _mark_step_if_lazy()
        return loss

    def _step_one(self, group, p):
        if p.grad.is_sparse:
            raise RuntimeError("SGD does not support sparse gradients, please consider SparseSGD")
        grad = p.grad
        if group["weight_decay"]:
            grad = grad.add(p, alpha=group["weight_decay"])
        if group["momentum"]:
            state = self.state[p]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = grad.clone()
            else:
                state["momentum_buffer"].mul_(group["momentum"]).add_(
                    grad, alpha=1 - group["dampening"]
                )
            buffer = state["momentum_buffer"]
            grad = grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        p.add_(grad, alpha=-group["lr"])
