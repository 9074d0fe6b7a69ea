"""apex's LARC with torch alone: each parameter's rate follows the ratio of its norm to its gradient's."""

from __future__ import annotations

from typing import Any

import torch


class LARC:
    """An optimizer wrapped so that every gradient is scaled by layer before its step.

    ``clip`` keeps the optimizer's own rate as the upper limit (LARC); without it the local rate multiplies it (LARS).
    """

    def __init__(
        self, optimizer: Any, trust_coefficient: float = 0.02, clip: bool = True, eps: float = 1e-8
    ) -> None:
        self.optim, self.trust_coefficient, self.clip, self.eps = (
            optimizer, trust_coefficient, clip, eps
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        """Everything else is the optimizer's: ``param_groups``, ``state_dict``, ``zero_grad`` …"""
        if name == "optim":
            raise AttributeError(name)
        return getattr(self.optim, name)

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Scales the gradients, weight decay included, then steps the optimizer without decay."""
        decays = [group.get("weight_decay", 0) for group in self.optim.param_groups]
        try:
            with torch.no_grad():
                for group, decay in zip(self.optim.param_groups, decays, strict=True):
                    if "weight_decay" in group:
                        group["weight_decay"] = 0
                    for parameter in group["params"]:
                        if parameter.grad is not None:
                            self._scale(parameter, decay, group["lr"])
            return self.optim.step(*args, **kwargs)
        finally:
            for group, decay in zip(self.optim.param_groups, decays, strict=True):
                if "weight_decay" in group:
                    group["weight_decay"] = decay

    def _scale(self, parameter: Any, decay: float, rate: float) -> None:
        size, slope = parameter.norm(), parameter.grad.norm()
        local = self.trust_coefficient * size / (slope + size * decay + self.eps)
        if self.clip:
            local = (local / rate).clamp(max=1)
        known = (size != 0) & (slope != 0)  # on the card: asking would wait for it
        scaled = (parameter.grad + decay * parameter) * local
        parameter.grad.copy_(torch.where(known, scaled, parameter.grad))
