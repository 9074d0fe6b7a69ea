"""Attention in one operator, also of eight-bit tensors, and the rotary position embedding."""

from __future__ import annotations

from habana_frameworks.torch._operators._library import operator
from habana_frameworks.torch._operators.fp8 import _EIGHT_BITS, _narrowed, _scaled
from habana_frameworks.torch.hpex.kernels.FusedSDPA import _attention_forward
from habana_frameworks.torch.hpex.kernels.RotaryPosEmbeddingHelper import (
    RotaryPosEmbeddingMode,
    _rotary,
)

import torch


def _wide(tensor, scale):
    """Eight bits as bfloat16, times what undoes the scale; others as they are."""
    if tensor.dtype not in _EIGHT_BITS:
        return tensor
    return _scaled(tensor.to(torch.bfloat16), scale)


def _quantised(probabilities, scale, back, dtype):
    """The probabilities as they come out of eight bits."""
    if scale is None or dtype not in _EIGHT_BITS:
        return probabilities
    narrow = _narrowed(_scaled(probabilities.float(), scale), dtype, at_random=False)
    undo = back if back is not None else _reciprocal(scale)
    return _scaled(narrow.float(), undo).to(probabilities.dtype)


def _reciprocal(scale):
    return 1.0 / scale


def _optional(scale):
    """Scales that are given as numbers: 0 means none."""
    return None if isinstance(scale, float) and scale == 0.0 else scale


def eight_bit_attention(q, k, v, mask, p, scale, causal, length, padding, scales):
    """(result, probabilities, largest probability, largest result, dropout factors); ``scales``: of q, k, v back, of the
    probabilities there and back, of the result."""
    back_q, back_k, back_v, there_s, there_o, back_s = map(_optional, scales)
    wide = _wide(q, back_q), _wide(k, back_k), _wide(v, back_v)
    _, probabilities, factors = _attention_forward(*wide, mask, p, causal, scale, length, padding)
    largest_s = probabilities.abs().max().float()
    kept = probabilities if factors is None else probabilities * factors
    kept = _quantised(kept, there_s, back_s, q.dtype)
    result = torch.matmul(kept, wide[2])
    largest_o = result.abs().max().float()
    if there_o is not None and q.dtype in _EIGHT_BITS:
        result = _narrowed(_scaled(result, there_o), q.dtype, at_random=False)
    return result, probabilities, largest_s, largest_o, factors


def _nothing(like, dtype=torch.float32):
    return torch.empty(0, dtype=dtype, device=like.device)


_QKV = "Tensor q, Tensor k, Tensor v, Tensor? attention_mask, float p, float scale, bool is_causal"
_SCALES = "Tensor? d_scale_q, Tensor? d_scale_k, Tensor? d_scale_v, Tensor? q_scale_s, Tensor? q_scale_o, Tensor? d_scale_s"
_LENGTH = "Tensor? valid_seq_len, str seq_padding_type"


@operator(
    f"fp8_sdpa_fwd({_QKV}, str softmax_mode, {_SCALES}, bool is_amax_s, {_LENGTH}) -> (Tensor, Tensor, Tensor, Tensor)",
    random=True,
)
def fp8_sdpa_fwd(
    q, k, v, mask, p, scale, causal, mode, bq, bk, bv, ts, to, bs, is_amax_s, length, padding
):
    """(result, probabilities, dropout mask, largest probability)."""
    result, probabilities, largest, _, factors = eight_bit_attention(
        q, k, v, mask, p, scale, causal, length, padding, (bq, bk, bv, ts, to, bs)
    )
    dropped = _nothing(q, torch.int8) if factors is None else (factors != 0).to(torch.int8)
    return result, probabilities, dropped, largest if is_amax_s else _nothing(q)


_RECOMPUTED = f"{_QKV}, bool requires_backward, str softmax_mode"
_SIX = "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"


@operator(
    f"fp8_sdpa_recomp_fwd({_RECOMPUTED}, {_SCALES}, bool is_amax_s, bool is_amax_o, {_LENGTH}) -> {_SIX}",
    random=True,
)
@operator(
    f"fp8_sdpa_recomp_fwd.scalar({_RECOMPUTED}, {_SCALES.replace('Tensor?', 'float')}, bool is_amax_s, bool is_amax_o, "
    f"{_LENGTH}) -> {_SIX}",
    random=True,
)
def fp8_sdpa_recomp_fwd(
    q, k, v, mask, p, scale, causal, backward, mode, bq, bk, bv, ts, to, bs, amax_s, amax_o, length, padding
):  # fmt: skip
    """(result, row maxima, reciprocal row sums, seed, largest probability, largest result); the three in the middle are
    empty, for nothing is recomputed from them here."""
    result, _, largest_s, largest_o, _ = eight_bit_attention(
        q, k, v, mask, p, scale, causal, length, padding, (bq, bk, bv, ts, to, bs)
    )
    return (
        result,
        _nothing(q, q.dtype),
        _nothing(q),
        _nothing(q, torch.int32),
        largest_s if amax_s else _nothing(q),
        largest_o if amax_o else _nothing(q),
    )


@operator(f"sdpa_fwd({_QKV}, str softmax_mode, {_LENGTH}) -> (Tensor, Tensor, Tensor)", random=True)
def sdpa_fwd(q, k, v, mask, p, scale, causal, mode, length, padding):
    """(result, probabilities, dropout mask)."""
    result, probabilities, factors = _attention_forward(
        q, k, v, mask, p, causal, scale, length, padding
    )
    dropped = _nothing(q, torch.int8) if factors is None else (factors != 0).to(torch.int8)
    return result, probabilities, dropped


@operator(
    f"sdpa_recomp_fwd({_RECOMPUTED}, {_LENGTH}) -> (Tensor, Tensor, Tensor, Tensor)", random=True
)
def sdpa_recomp_fwd(q, k, v, mask, p, scale, causal, backward, mode, length, padding):
    """(result, row maxima, reciprocal row sums, seed); the last three are empty here."""
    result, _, _ = _attention_forward(q, k, v, mask, p, causal, scale, length, padding)
    return result, _nothing(q, q.dtype), _nothing(q), _nothing(q, torch.int32)


@operator(
    "rotary_pos_embedding(Tensor input, Tensor sin, Tensor cos, Tensor? position_ids, int offset, int mode) -> Tensor"
)
def rotary_pos_embedding(input, sin, cos, position_ids, offset, mode):
    """``input`` with its positions rotated in."""
    return _rotary(input, cos, sin, position_ids, offset, RotaryPosEmbeddingMode(mode))


@operator(
    "rotary_pos_embedding_backward(Tensor grad_in, Tensor sin, Tensor cos, Tensor? position_ids, int offset, int mode) -> Tensor"
)
def rotary_pos_embedding_backward(grad_in, sin, cos, position_ids, offset, mode):
    """The gradient of :func:`rotary_pos_embedding` with respect to its input."""
    mode = RotaryPosEmbeddingMode(mode)
    return _rotary(grad_in, cos, sin, position_ids, offset, mode, transposed=True)
