"""Root-mean-square normalization under the vendor's name, computed from torch operators."""

from __future__ import annotations

from enum import Enum

import torch


class RmsNormBwdMode(Enum):
    """How the device splits the backward kernel; no number depends on it."""

    DEFAULT = 0
    STATIC_CASE_WIDTH_PARTITIONING = 1


class FusedRMSNorm(torch.autograd.Function):
    """``FusedRMSNorm.apply(data_in, gamma, eps, use_stages, bwd_mode, fast_math)`` over the last dimension."""

    @staticmethod
    def forward(ctx, data_in, gamma, eps, use_stages=True, bwd_mode=0, fast_math=False):
        wide = data_in.float()
        inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(inverse, data_in, gamma)
        return (wide * inverse * gamma.float()).to(data_in.dtype)

    @staticmethod
    def backward(ctx, root_mean_square_norm_grad_in):
        inverse, data_in, gamma = ctx.saved_tensors
        grad, wide = root_mean_square_norm_grad_in.float(), data_in.float()
        normed = wide * inverse
        scaled = grad * gamma.float()
        grad_in = inverse * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
        grad_gamma = (grad * normed).reshape(-1, gamma.shape[-1]).sum(0).reshape(gamma.shape)
        return grad_in.to(data_in.dtype), grad_gamma.to(gamma.dtype), None, None, None, None
