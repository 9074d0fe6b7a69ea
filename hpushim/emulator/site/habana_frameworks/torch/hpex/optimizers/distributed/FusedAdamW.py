"""Functional AdamW for torch.distributed's optimizers, under the vendor's name."""

from __future__ import annotations

import math

from habana_frameworks.torch._not_modelled import not_modelled
from habana_frameworks.torch.hpex.optimizers import _moments

import torch
from torch import Tensor


class FusedAdamW:
    """Holds parameters and state itself; ``step(gradients)`` takes the gradients in the parameters' order."""

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        _allow_empty_param_list: bool = False,
        moments_dtype: torch.dtype | tuple[torch.dtype, torch.dtype] | None = None,
    ):
        if not params and not _allow_empty_param_list:
            raise ValueError("optimizer got an empty parameter list")
        self.defaults = {
            "lr": lr,
            "beta1": betas[0],
            "beta2": betas[1],
            "eps": eps,
            "weight_decay": weight_decay,
        }
        self.moments_dtype = moments_dtype
        self.moments_in_fp8 = self.check_moments_in_fp8()
        self.param_group = {"params": params}
        self.state: dict[Tensor, dict[str, object]] = {}
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: list[Tensor | None]):
        """One step with ``gradients``; None skips a parameter."""
        params = self.param_group["params"]
        if len(params) != len(gradients):
            raise ValueError(
                f"found {len(gradients)} gradients for {len(params)} parameters; expected one each"
            )
        self.steps += 1
        known = self.defaults
        size = (
            known["lr"]
            * math.sqrt(1.0 - known["beta2"] ** self.steps)
            / (1.0 - known["beta1"] ** self.steps)
        )
        kept = 1.0 - known["weight_decay"] * known["lr"]
        for p, grad in zip(params, gradients, strict=True):
            if grad is None:
                continue
            state = self.state.setdefault(p, {})
            if not state:
                _moments.init(state, p, *self.get_moment_dtypes(p.dtype), self.moments_in_fp8)
            _moments.adam_update(
                p, grad, state, known["beta1"], known["beta2"], known["eps"], size, kept
            )

    def step_param(self, param: Tensor, grad: Tensor | None):
        """Not available, as in the vendor's class."""
        raise not_modelled("FusedAdamW.step_param", "call step(gradients), as on Gaudi")

    def get_moment_dtypes(self, param_dtype):
        """Dtypes of the first and the second moment of a parameter of ``param_dtype``."""
        return _moments.dtypes(self.moments_dtype, param_dtype)

    def check_moments_in_fp8(self):
        """True if either moment is kept in an 8-bit float."""
        return _moments.in_fp8(self.moments_dtype)
