"""Scaled dot-product attention of eight-bit tensors under the vendor's name."""

from __future__ import annotations

import math

from habana_frameworks.torch import hpu
from habana_frameworks.torch.hpex.kernels.FusedSDPA import (
    _attention_backward,
    gqa_input_reshape_bwd,
    gqa_input_reshape_fwd,
    gqa_output_reshape,
    is_gqa,
)

import torch


class Fp8FusedSDPA(torch.autograd.Function):
    """``apply(q, k, v, …)`` gives (result, largest probability or None, largest result or None)."""

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
        d_scale_q=None,
        d_scale_k=None,
        d_scale_v=None,
        q_scale_s=None,
        q_scale_o=None,
        d_scale_s=None,
        is_amax_s=False,
        is_amax_o=False,
        valid_seq_len=None,
        seq_padding_type="left",
        recompute=None,
    ):
        needs_grad = any(ctx.needs_input_grad[:3])
        if scale is None:
            scale = 1.0 / math.sqrt(q.size(-1))
        recompute = hpu.recompute_sdp_enabled() if recompute is None else recompute
        if needs_grad:
            assert is_causal, "fp8_fused_sdpa: training takes is_causal=True alone"
        if valid_seq_len is not None:
            ok = is_causal and not needs_grad and attn_mask is None
            assert ok, (
                "fp8_fused_sdpa: valid_seq_len needs is_causal=True, no attn_mask and no gradient"
            )
        grouped = is_gqa(q, k)
        if grouped:
            q, k, v, attn_mask = gqa_input_reshape_fwd(q, k, v, attn_mask)
        scales = [d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s]
        tail = (valid_seq_len, seq_padding_type.lower())
        if recompute:
            scales = _of_one_kind(scales)
            out, *_, amax_s, amax_o = torch.ops.hpu.fp8_sdpa_recomp_fwd(
                q, k, v, attn_mask, dropout_p, scale, is_causal, needs_grad, softmax_mode.lower(),
                *scales, is_amax_s, is_amax_o, *tail,
            )  # fmt: skip
        else:
            out, probabilities, dropped, amax_s = torch.ops.hpu.fp8_sdpa_fwd(
                q, k, v, attn_mask, dropout_p, scale, is_causal, softmax_mode.lower(),
                *scales, is_amax_s, *tail,
            )  # fmt: skip
            amax_o = None
        if needs_grad:
            if recompute:
                probabilities = torch.ops.hpu.sdpa_fwd(
                    q, k, v, attn_mask, 0.0, scale, is_causal, "none", None, "left"
                )[1]
                dropped = None
            ctx.save_for_backward(q, k, v, probabilities, dropped)
            ctx.scale, ctx.grouped, ctx.dropout_p = scale, grouped, dropout_p
        return (gqa_output_reshape(out) if grouped else out), amax_s, amax_o

    @staticmethod
    def backward(ctx, dout, *_):
        q, k, v, probabilities, dropped = ctx.saved_tensors
        factors = None
        if dropped is not None and dropped.numel():
            factors = dropped.to(probabilities.dtype) / (1.0 - ctx.dropout_p)
        if ctx.grouped:
            dout = gqa_input_reshape_bwd(q, v, dout)
        grads = _attention_backward(dout, q, k, v, probabilities, factors, ctx.scale)
        if ctx.grouped:
            grads = tuple(gqa_output_reshape(grad) for grad in grads)
        return (*grads, *[None] * 16)


def _of_one_kind(scales):
    """The operator takes tensors or numbers: with numbers, what is missing is 0."""
    if any(isinstance(scale, float | int) for scale in scales):
        return [0.0 if scale is None else float(scale) for scale in scales]
    return scales


def fp8_fused_sdpa(
    q,
    k,
    v,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    softmax_mode="None",
    d_scale_q=None,
    d_scale_k=None,
    d_scale_v=None,
    q_scale_s=None,
    q_scale_o=None,
    d_scale_s=None,
    is_amax_s=False,
    is_amax_o=False,
    valid_seq_len=None,
    seq_padding_type="left",
    recompute=None,
):
    """Attention of ``q``, ``k``, ``v`` (batch, heads, length, features), in eight bits or wider.

    ``d_scale_*`` undo the scales of the inputs and of the probabilities, ``q_scale_s`` and ``q_scale_o`` scale probabilities
    and result into eight bits; without ``q_scale_o`` the result is bfloat16. Returns (result, largest probability or no
    elements, largest result or None).
    """
    return Fp8FusedSDPA.apply(
        q, k, v, attn_mask, dropout_p, is_causal, scale, softmax_mode, d_scale_q, d_scale_k, d_scale_v,
        q_scale_s, q_scale_o, d_scale_s, is_amax_s, is_amax_o, valid_seq_len, seq_padding_type, recompute,
    )  # fmt: skip
