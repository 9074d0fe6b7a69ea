"""``apex.fp16_utils``, the oldest part of apex, said with torch in bfloat16."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from hpushim.shim import log


def network_to_half(network: Any) -> Any:
    """The network in bfloat16, which needs no loss scaling; its inputs are cast as apex casts them."""
    return torch.nn.Sequential(_ToBf16(), BN_convert_float(network.bfloat16()))


convert_network = network_to_half


class _ToBf16(torch.nn.Module):  # type: ignore[misc]
    """Casts what comes in."""

    def forward(self, value: Any) -> Any:
        return value.bfloat16()


tofp16 = _ToBf16


def BN_convert_float(module: Any) -> Any:
    """Batch norms with statistics stay in float32."""
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.affine:
        module.float()
    for child in module.children():
        BN_convert_float(child)
    return module


def prep_param_lists(model: Any, flat_master: bool = False) -> tuple[list[Any], list[Any]]:
    """The model's parameters and float32 copies of them."""
    if flat_master:
        log.refuse("HPU212", "apex prep_param_lists(flat_master=True)", "leave flat_master out")
    own = [p for p in model.parameters() if p.requires_grad]
    copies = [torch.nn.Parameter(p.detach().clone().float()) for p in own]
    for copy in copies:
        copy.grad = torch.zeros_like(copy)
    return own, copies


def model_grads_to_master_grads(
    model_params: Iterable[Any], master_params: Iterable[Any], flat_master: bool = False
) -> None:
    """Gradients of the model, in float32, to the copies."""
    for own, copy in zip(model_params, master_params, strict=True):
        copy.grad = None if own.grad is None else own.grad.detach().float()


def master_params_to_model_params(
    model_params: Iterable[Any], master_params: Iterable[Any], flat_master: bool = False
) -> None:
    """Values of the copies to the model."""
    for own, copy in zip(model_params, master_params, strict=True):
        own.data.copy_(copy.data)


def to_python_float(value: Any) -> float:
    """The number in a tensor of one element."""
    return float(value.item() if hasattr(value, "item") else value[0])


class FP16_Optimizer:
    """An optimizer whose loss needs no scaling: ``backward(loss)`` and the inner optimizer's own ``step``."""

    loss_scale = 1.0
    overflow = False

    def __init__(self, init_optimizer: Any, *args: Any, **kwargs: Any) -> None:
        self.optimizer = init_optimizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.optimizer, name)

    def backward(self, loss: Any, update_master_grads: bool = True, **kwargs: Any) -> None:
        """The loss's backward pass."""
        loss.backward(**kwargs)

    def update_master_grads(self) -> None:
        """The gradients are where they belong."""

    def clip_master_grads(self, max_norm: float, norm_type: float = 2) -> Any:
        """torch's clipping; the norm before it."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's state, under apex's name."""
        return {"optimizer_state_dict": self.optimizer.state_dict(), "loss_scaler": None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """A state of apex's or of the inner optimizer's."""
        self.optimizer.load_state_dict(state.get("optimizer_state_dict", state))
