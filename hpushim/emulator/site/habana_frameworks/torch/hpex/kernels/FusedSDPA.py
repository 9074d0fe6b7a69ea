"""Scaled dot-product attention under the vendor's name, computed from torch operators.

One formula serves every variant (grouped heads, masks, causal, padded lengths, dropout); the flags that
choose between device kernels (``softmax_mode``, ``recompute_mode``) change no number here.
"""

from __future__ import annotations

import math

import torch
from hpushim.emulator import calls, profiles


def check_dbg_env_var(v):
    """True if environment variable ``v`` is ``1``."""
    import os

    return int(os.getenv(v, "0")) == 1


def is_gqa(q, k):
    """True if ``q`` has more heads than ``k`` and ``k`` has more than one (grouped-query attention)."""
    return q.dim() == 4 and k.shape[1] != 1 and q.shape[1] != k.shape[1]


def gqa_input_reshape_fwd(q, k, v, attention_mask):
    """Split the heads of ``q`` into groups, one per head of ``k`` and ``v``; returns all four, five-dimensional."""
    groups = k.shape[1]
    q = q.reshape(q.shape[0], groups, q.shape[1] // groups, *q.shape[2:])
    k, v = k.unsqueeze(2), v.unsqueeze(2)
    if attention_mask is not None:
        heads = attention_mask.shape[1]
        if heads == groups * q.shape[2]:
            shape = (attention_mask.shape[0], groups, q.shape[2], *attention_mask.shape[2:])
            attention_mask = attention_mask.reshape(shape)
        else:
            attention_mask = attention_mask.unsqueeze(1)
    return q, k, v, attention_mask


def gqa_input_reshape_bwd(q, v, grad_in):
    """Give ``grad_in`` the grouped shape of the forward result."""
    return grad_in.reshape(*q.shape[:-1], v.shape[-1])


def gqa_output_reshape(tensor):
    """Join groups and heads per group again: five dimensions to four."""
    return tensor.flatten(1, 2)


def _scores_mask(scores, attn_mask, is_causal, valid_seq_len, seq_padding_type):
    """Scores with minus infinity (or the float mask added) where attention must not look."""
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
        else:
            scores = scores + attn_mask
    rows, columns = scores.shape[-2:]
    if is_causal:
        keep = torch.ones(rows, columns, dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(keep.logical_not(), float("-inf"))
    if valid_seq_len is not None:
        position = torch.arange(columns, device=scores.device)
        length = valid_seq_len.reshape(-1, *([1] * (scores.dim() - 1))).to(position.dtype)
        valid = position < length if seq_padding_type == "right" else position >= columns - length
        scores = scores.masked_fill(valid.logical_not(), float("-inf"))
    return scores


def _attention_forward(q, k, v, mask, dropout_p, is_causal, scale, valid_seq_len, seq_padding_type):
    """Returns (result, probabilities, dropout factors or None); rows that see nothing give zeros."""
    scores = torch.matmul(q, k.transpose(-2, -1)).float() * scale
    scores = _scores_mask(scores, mask, is_causal, valid_seq_len, seq_padding_type)
    # A fully masked row is 0/0 in softmax: the kernels give zeros there.
    probs = torch.softmax(scores, dim=-1).nan_to_num(nan=0.0).to(q.dtype)
    factors = None
    kept = probs
    if dropout_p > 0.0:
        factors = torch.empty_like(probs).bernoulli_(1.0 - dropout_p).div_(1.0 - dropout_p)
        kept = probs * factors
    return torch.matmul(kept, v), probs, factors


def _sum_to(grad, shape):
    """Sum a gradient over the dimensions that broadcasting had added."""
    return grad if grad.shape == shape else grad.sum_to_size(shape)


def _attention_backward(dout, q, k, v, probs, factors, scale):
    """Gradients of q, k and v."""
    dout = dout.to(probs.dtype)
    kept = probs if factors is None else probs * factors
    dv = torch.matmul(kept.transpose(-2, -1), dout)
    dprobs = torch.matmul(dout, v.transpose(-2, -1))
    if factors is not None:
        dprobs = dprobs * factors
    wide = probs.float()
    dscores = wide * (dprobs.float() - (dprobs.float() * wide).sum(-1, keepdim=True))
    dscores = (dscores * scale).to(q.dtype)
    dq = torch.matmul(dscores, k)
    dk = torch.matmul(dscores.transpose(-2, -1), q)
    return _sum_to(dq, q.shape), _sum_to(dk, k.shape), _sum_to(dv, v.shape)


def _check_flags(
    needs_grad, recompute, softmax_mode, is_causal, valid_seq_len, attn_mask, dropout_mask, probs
):
    """The combinations that the vendor's package refuses, refused with the same kind of error."""
    if profiles.current().gaudi == "gaudi1":
        calls.object_to("habana_frameworks.torch.hpex.kernels.FusedSDPA")
    if probs:
        assert not needs_grad, "FusedSDPA: return_attn_probs needs inputs that require no gradient"
        recompute = False
    if recompute and needs_grad and softmax_mode == "fast":
        assert is_causal, (
            "FusedSDPA: softmax_mode='fast' with recompute in training needs is_causal=True"
        )
    if valid_seq_len is not None:
        ok = is_causal and not needs_grad and attn_mask is None
        assert ok, "FusedSDPA: valid_seq_len needs is_causal=True, no attn_mask and no gradient"
    if recompute:
        assert not dropout_mask, "FusedSDPA: return_dropout_mask is not available with recompute"


def sdpa_fwd_wrapper(
    ctx,
    q,
    k,
    v,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    softmax_mode="None",
    recompute_mode=None,
    valid_seq_len=None,
    seq_padding_type="left",
    return_dropout_mask=False,
    return_attn_probs=False,
):
    """Forward of :class:`FusedSDPA`: checks, grouping, the formula, what backward needs."""
    from habana_frameworks.torch import hpu

    needs_grad = q.requires_grad or k.requires_grad or v.requires_grad
    recompute = hpu.recompute_sdp_enabled() if recompute_mode is None else recompute_mode
    softmax_mode, padding = softmax_mode.lower(), seq_padding_type.lower()
    _check_flags(
        needs_grad,
        recompute,
        softmax_mode,
        is_causal,
        valid_seq_len,
        attn_mask,
        return_dropout_mask,
        return_attn_probs,
    )
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    if torch.is_autocast_enabled("hpu"):
        # SDPA is on the device's lower-precision list.
        q, k, v = (t.to(torch.get_autocast_dtype("hpu")) for t in (q, k, v))
    grouped = is_gqa(q, k)
    if grouped:
        q, k, v, attn_mask = gqa_input_reshape_fwd(q, k, v, attn_mask)
    with torch.autocast("hpu", enabled=False):
        out, probs, factors = _attention_forward(
            q, k, v, attn_mask, dropout_p, is_causal, scale, valid_seq_len, padding
        )
    if needs_grad:
        ctx.save_for_backward(q, k, v, probs, factors)
        ctx.scale, ctx.grouped = scale, grouped
    results = [out]
    if return_attn_probs:
        results.append(probs)
    if return_dropout_mask:
        kept = torch.ones_like(probs) if factors is None else factors
        results.append((kept != 0).to(torch.int8))
    if grouped:
        results = [gqa_output_reshape(t) for t in results]
    ctx.mark_non_differentiable(*results[1:])
    return results[0] if len(results) == 1 else tuple(results)


def sdpa_bwd_wrapper(ctx, dout, *args):
    """Backward of :class:`FusedSDPA`: gradients for q, k, v and None for the ten options."""
    q, k, v, probs, factors = ctx.saved_tensors
    if ctx.grouped:
        dout = gqa_input_reshape_bwd(q, v, dout)
    grads = _attention_backward(dout, q, k, v, probs, factors, ctx.scale)
    if ctx.grouped:
        grads = tuple(gqa_output_reshape(g) for g in grads)
    return (*grads, *([None] * 10))


class FusedSDPA(torch.autograd.Function):
    """``FusedSDPA.apply(q, k, v, …)``: attention over (batch, heads, length, size) tensors."""

    @staticmethod
    def forward(
        ctx,
        q,
        k,
        v,
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        softmax_mode="None",
        recompute_mode=None,
        valid_seq_len=None,
        seq_padding_type="left",
        return_dropout_mask=False,
        return_attn_probs=False,
    ):
        return sdpa_fwd_wrapper(
            ctx,
            q,
            k,
            v,
            attn_mask,
            dropout_p,
            is_causal,
            scale,
            softmax_mode,
            recompute_mode,
            valid_seq_len,
            seq_padding_type,
            return_dropout_mask,
            return_attn_probs,
        )

    @staticmethod
    def backward(ctx, dout, *args):
        return sdpa_bwd_wrapper(ctx, dout, *args)
