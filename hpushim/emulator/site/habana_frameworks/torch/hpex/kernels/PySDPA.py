"""Attention written in Python by the vendor for graph compilers: here the same formula as FusedSDPA."""

from __future__ import annotations

import math

from habana_frameworks.torch.hpex.kernels.FusedSDPA import _attention_backward, _attention_forward

import torch


def _forward(ctx, q, k, v, is_causal):
    scale = 1.0 / math.sqrt(q.shape[-1])
    out, probs, _ = _attention_forward(q, k, v, None, 0.0, is_causal, scale, None, "left")
    ctx.save_for_backward(q, k, v, probs)
    ctx.scale = scale
    return out


def _backward(ctx, dout):
    q, k, v, probs = ctx.saved_tensors
    return (*_attention_backward(dout, q, k, v, probs, None, ctx.scale), None, None)


class PySDPA(torch.autograd.Function):
    """``PySDPA.apply(q, k, v, is_causal, with_slice)``; slicing changes no number."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal=False, with_slice=False):
        return _forward(ctx, q, k, v, is_causal)

    @staticmethod
    def backward(ctx, dout):
        return _backward(ctx, dout)


class PySDPAHinted(torch.autograd.Function):
    """As :class:`PySDPA`; the scheduling hints have no reader here."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal=False, with_slice=True):
        return _forward(ctx, q, k, v, is_causal)

    @staticmethod
    def backward(ctx, dout):
        return _backward(ctx, dout)
