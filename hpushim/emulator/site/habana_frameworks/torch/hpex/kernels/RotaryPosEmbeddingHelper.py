"""Rotary position embedding under the vendor's names, computed from torch operators."""

from __future__ import annotations

from enum import Enum

import torch


class RotaryPosEmbeddingMode(Enum):
    """How the rotated pairs lie in the last dimension: first half with second half, or neighbours."""

    BLOCKWISE = 0
    PAIRWISE = 1


def match_data_types(
    input: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All three in float32 if any of them is, otherwise all in the dtype of ``input``."""
    wide = torch.float32 in (input.dtype, cos.dtype, sin.dtype)
    dtype = torch.float32 if wide else input.dtype
    return input.to(dtype), cos.to(dtype), sin.to(dtype)


def _rotate(x, mode, transposed=False):
    """The quarter turn of the formula, or its transpose (which backward needs)."""
    if mode == RotaryPosEmbeddingMode.BLOCKWISE:
        first, second = x.chunk(2, dim=-1)
        turned = (second, -first) if transposed else (-second, first)
        return torch.cat(turned, dim=-1)
    first, second = x[..., ::2], x[..., 1::2]
    turned = (second, -first) if transposed else (-second, first)
    return torch.stack(turned, dim=-1).flatten(-2)


def _table(table, p, position_ids, offset):
    """Rows of a cos or sin table that belong to ``p``, in a shape that broadcasts with it."""
    if position_ids is not None:
        while table.dim() > 2 and table.shape[0] == 1:
            table = table.squeeze(0)
        while table.dim() > 3 and table.shape[1] == 1:
            table = table.squeeze(1)
        if table.dim() == 2:
            table = table[position_ids]
        else:
            index = position_ids.unsqueeze(-1).expand(table.shape[0], -1, table.shape[-1])
            table = table.gather(1, index)
    elif table.shape[-1] > p.shape[-1]:
        # the oldest form keeps the positions of what came before in front of the features
        table = table[..., offset : offset + p.shape[-1]]
    elif table.shape[-2] != 1:
        length = p.shape[-2]
        table = table[..., offset : offset + length, :]
    if table.dim() == 3 and p.dim() == 4:
        table = table.unsqueeze(1)
    return table


def _rotary(
    p,
    cos,
    sin,
    position_ids=None,
    offset=0,
    mode=RotaryPosEmbeddingMode.BLOCKWISE,
    transposed=False,
):
    """The formula: ``p * cos + rotate(p) * sin``; with ``transposed`` its gradient with respect to ``p``."""
    p, cos, sin = match_data_types(p, cos, sin)
    cos, sin = (_table(t, p, position_ids, offset) for t in (cos, sin))
    if transposed:
        return p * cos + _rotate(p * sin, mode, transposed=True)
    return p * cos + _rotate(p, mode) * sin


def apply_rotary_pos_emb(p: torch.Tensor, *args) -> torch.Tensor:
    """``p`` with its positions rotated in.

    Called as ``(p, rope_cache)`` for the ChatGLM form, otherwise as
    ``(p, cos, sin, position_ids=None, offset=0, mode=BLOCKWISE)``.
    """
    if len(args) == 1:
        return RotaryPosEmbeddingHelperV3.apply(p, args[0])
    defaults = (None, None, None, 0, RotaryPosEmbeddingMode.BLOCKWISE)
    cos, sin, position_ids, offset, mode = (*args, *defaults[len(args) :])
    return _rotary(p, cos, sin, position_ids, offset, mode)


def apply_rotary_pos_emb_bwd(
    p_grad_in: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.LongTensor = None,
    offset: int = 0,
    mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> torch.Tensor:
    """Gradient with respect to the rotated tensor."""
    return _rotary(p_grad_in, cos, sin, position_ids, offset, mode, transposed=True)


class RotaryPosEmbeddingHelperV1(torch.autograd.Function):
    """GPT-NeoX form with an offset into the tables (Transformers 4.27.4 and older)."""

    @staticmethod
    def forward(ctx, p, cos, sin, offset):
        ctx.save_for_backward(cos, sin)
        ctx.offset = offset
        return _rotary(p, cos, sin, None, offset)

    @staticmethod
    def backward(ctx, p_grad_in):
        cos, sin = ctx.saved_tensors
        return apply_rotary_pos_emb_bwd(p_grad_in, cos, sin, None, ctx.offset), None, None, None


class RotaryPosEmbeddingHelperV2(torch.autograd.Function):
    """Form with position ids into the tables."""

    @staticmethod
    def forward(ctx, p, cos, sin, position_ids):
        ctx.save_for_backward(cos, sin, position_ids)
        return _rotary(p, cos, sin, position_ids)

    @staticmethod
    def backward(ctx, p_grad_in):
        cos, sin, position_ids = ctx.saved_tensors
        return apply_rotary_pos_emb_bwd(p_grad_in, cos, sin, position_ids), None, None, None


def parse_rope_cache(p, rope_cache):
    """ChatGLM cache to (rotated part of p, untouched rest, sin, cos); p is (length, batch, heads, size)."""
    length, heads = p.shape[0], p.shape[2]
    turned = rope_cache.shape[-2] * 2
    part, rest = p[..., :turned], p[..., turned:]
    cache = rope_cache[:length].reshape(length, -1, 1, turned // 2, 2)
    cos, sin = (cache[..., i].repeat_interleave(2, dim=-1).to(p.dtype) for i in (0, 1))
    return part.reshape(length, -1, heads, turned), rest, sin, cos


def _rotate_cached(p, rope_cache, transposed):
    part, rest, sin, cos = parse_rope_cache(p, rope_cache)
    mode = RotaryPosEmbeddingMode.PAIRWISE
    if transposed:
        done = part * cos + _rotate(part * sin, mode, transposed=True)
    else:
        done = part * cos + _rotate(part, mode) * sin
    return done if rest.shape[-1] == 0 else torch.cat((done, rest), dim=-1)


class RotaryPosEmbeddingHelperV3(torch.autograd.Function):
    """ChatGLM form: cos and sin in one cache, only the first part of the last dimension turned."""

    @staticmethod
    def forward(ctx, p, rope_cache):
        ctx.save_for_backward(rope_cache)
        return _rotate_cached(p, rope_cache, transposed=False)

    @staticmethod
    def backward(ctx, p_grad_in):
        return _rotate_cached(p_grad_in, ctx.saved_tensors[0], transposed=True), None
