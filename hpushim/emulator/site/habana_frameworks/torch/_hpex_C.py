"""The bridge's low-level operators that old ports call directly, computed from torch operators."""

from __future__ import annotations

from habana_frameworks.torch._not_modelled import module_getattr

import torch


def _norm(tensors):
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(t) for t in tensors]))


@torch.no_grad()
def fused_lamb_norm(grad_list, max_grad_norm):
    """What LAMB divides gradients by: norm over limit where that is above one, else one; one element."""
    return (_norm(grad_list) / max_grad_norm).clamp(min=1.0).reshape(1)


@torch.no_grad()
def fused_norm(grad_list, max_norm, norm_type):
    """Scale the gradients in place to a 2-norm of at most ``max_norm``; returns their norm before, one element."""
    if norm_type != 2:
        raise ValueError(
            f"fused_norm takes norm_type 2, found {norm_type}; use torch.nn.utils.clip_grad_norm_"
        )
    total = _norm(grad_list).reshape(1)
    factor = (max_norm.to(total.dtype) / (total + 1e-6)).clamp(max=1.0)
    for grad in grad_list:
        grad.mul_(factor.to(grad.dtype))
    return total


__getattr__ = module_getattr(__name__)
