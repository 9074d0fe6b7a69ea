"""``apex.optimizers`` and LARC, said with torch's optimizers and the vendor's FusedLamb."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from hpushim.shim import log


class FusedAdam(torch.optim.AdamW):  # type: ignore[misc]
    """torch's AdamW; with ``adam_w_mode=False`` the constructor makes torch's Adam."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(cls.__init__).bind(None, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if given["adam_w_mode"]:
            return super().__new__(cls)
        _refuse_variants(given["bias_correction"], given["amsgrad"])
        names = ("lr", "betas", "eps", "weight_decay")
        return torch.optim.Adam(given["params"], **{name: given[name] for name in names})

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        **ignored: Any,
    ) -> None:
        _refuse_variants(bias_correction, amsgrad)
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)


def _refuse_variants(bias_correction: bool, amsgrad: bool) -> None:
    if not bias_correction or amsgrad:
        log.refuse(
            "HPU602",
            "apex FusedAdam with bias_correction=False or amsgrad=True",
            "use torch.optim directly",
        )


def FusedLAMB(params: Any, lr: float = 1e-3, **options: Any) -> Any:
    """The vendor's FusedLamb; options that it lacks are dropped, and named."""
    from habana_frameworks.torch.hpex.optimizers import FusedLamb

    known = inspect.signature(FusedLamb.__init__).parameters
    dropped = sorted(name for name, value in options.items() if name not in known and value)
    if dropped:
        log.warn("HPU602", f"apex FusedLAMB: {', '.join(dropped)} of apex has no counterpart")
    return FusedLamb(params, lr=lr, **{k: v for k, v in options.items() if k in known})


class FusedSGD(torch.optim.SGD):  # type: ignore[misc]
    """torch's SGD."""

    def __init__(self, params: Any, lr: float, *args: Any, **kwargs: Any) -> None:
        for name in ("wd_after_momentum", "materialize_master_grads", "set_grad_none"):
            kwargs.pop(name, None)
        super().__init__(params, lr, *args, **kwargs)


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
        known = (size != 0) & (slope != 0)  # on the device: asking would wait for it
        scaled = (parameter.grad + decay * parameter) * local
        parameter.grad.copy_(torch.where(known, scaled, parameter.grad))
