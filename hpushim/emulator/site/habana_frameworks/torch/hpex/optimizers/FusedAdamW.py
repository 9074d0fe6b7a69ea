"""AdamW under the vendor's name: other defaults than torch's, a step counted per group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from habana_frameworks.torch import core as htcore
from habana_frameworks.torch.hpex.optimizers import _moments
from habana_frameworks.torch.utils.internal import is_lazy

import torch
from torch.optim import Optimizer


class FusedAdamW(Optimizer):
    """Decoupled weight decay, then the Adam step; eps 1e-6 and weight_decay 0 by default, as the vendor's."""

    def __init__(
        self,
        params: Iterable[torch.nn.parameter.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        moments_dtype: torch.dtype | tuple[torch.dtype, torch.dtype] | None = None,
    ):
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr} - should be >= 0.0")
        for beta in betas[:2]:
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter: {beta} - should be in [0.0, 1.0[")
        if eps < 0.0:
            raise ValueError(f"Invalid epsilon value: {eps} - should be >= 0.0")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
        }
        super().__init__(params, defaults)
        self.is_lazy = is_lazy()
        self.moments_dtype = moments_dtype
        self.moments_in_fp8 = self.check_moments_in_fp8()

    @torch.no_grad()
    def step(self, closure: Callable | None = None):
        """One step; returns the closure's loss, or None."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            htcore.step_closure._mark_step_if_lazy()
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                self._step_group(group, params)
        htcore.step_closure._mark_step_if_lazy()
        return loss

    def _step_group(self, group, params):
        group["step"] = group.get("step", 0) + 1
        beta1, beta2 = group["betas"]
        size = group["lr"]
        if self.is_bias_correction(group):
            size *= math.sqrt(1.0 - beta2 ** group["step"]) / (1.0 - beta1 ** group["step"])
        kept = 1.0 - group["weight_decay"] * group["lr"]
        for p in params:
            if p.grad.is_sparse:
                raise RuntimeError(
                    "Adam does not support sparse gradients, please consider SparseAdam"
                )
            state = self.state[p]
            if len(state) == 0:
                self._init_state(state, p)
            _moments.adam_update(p, p.grad, state, beta1, beta2, group["eps"], size, kept)

    def _init_state(self, state, p):
        state["step"] = 0
        _moments.init(state, p, *self.get_moment_dtypes(p.dtype), self.moments_in_fp8)

    def is_bias_correction(self, group):
        """The group's flag; True for groups loaded from torch.optim.AdamW, which have none."""
        return group.get("bias_correction", group.get("correct_bias", True))

    def get_moment_dtypes(self, param_dtype):
        """Dtypes of the first and the second moment of a parameter of ``param_dtype``."""
        return _moments.dtypes(self.moments_dtype, param_dtype)

    def check_moments_in_fp8(self):
        """True if either moment is kept in an 8-bit float."""
        return _moments.in_fp8(self.moments_dtype)
