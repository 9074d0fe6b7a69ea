"""Adagrad under the vendor's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import habana_frameworks.torch.core as htcore

import torch
from hpushim.emulator import calls
from torch.optim import Optimizer

_NAME = "habana_frameworks.torch.hpex.optimizers.FusedAdagrad"

hpu = torch.device("hpu")
cpu = torch.device("cpu")


class FusedAdagrad(Optimizer):
    """Adagrad with the arguments and defaults of the vendor's class (torch's without foreach and maximize)."""

    def __init__(
        self,
        params: Iterable[torch.nn.parameter.Parameter],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
    ):
        named = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
        }
        for what, value in named.items():
            if not value >= 0.0:
                raise ValueError(f"Invalid {what} value: {value}")
        super().__init__(params, named)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["step"] = 0
                self.state[p]["sum"] = torch.full_like(p, initial_accumulator_value)

    @torch.no_grad()
    def step(self, closure: Callable | None = None):
        """One step; returns the closure's loss, or None."""
        if calls.refuses(_NAME):
            calls.object_to(_NAME)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        htcore.step_closure._mark_step_if_lazy()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step_one(group, p)
        htcore.step_closure._mark_step_if_lazy()
        return loss

    def _step_one(self, group, p):
        if p.grad.is_sparse:
            raise RuntimeError(
                "FusedAdagrad does not support sparse gradients, please consider SparseAdagrad"
            )
        state = self.state[p]
        state["step"] += 1
        grad = p.grad.add(p, alpha=group["weight_decay"]) if group["weight_decay"] else p.grad
        rate = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        state["sum"].addcmul_(grad, grad)
        p.addcdiv_(grad, state["sum"].sqrt().add_(group["eps"]), value=-rate)
