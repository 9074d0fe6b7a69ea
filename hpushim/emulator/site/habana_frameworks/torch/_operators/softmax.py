"""Softmax with a scale and a mask, as attention layers use it."""

from __future__ import annotations

from habana_frameworks.torch._operators._library import operator

import torch


@operator("scaled_masked_softmax(Tensor input, Tensor mask, float scale) -> Tensor")
def scaled_masked_softmax(input, mask, scale):
    """Softmax over the last dimension of ``input * scale + mask``."""
    return torch.softmax(input.float() * scale + mask.float(), -1).to(input.dtype)


def _lower_triangle(scores, offset=0):
    rows, columns = scores.shape[-2:]
    keep = torch.ones(rows, columns, dtype=torch.bool, device=scores.device).tril(offset)
    return scores.masked_fill(~keep, float("-inf"))


@operator(
    "scaled_triangular_softmax(Tensor self, float inv_scale_attn, Tensor? exp_sum_recpr=None, Tensor? max=None) -> Tensor"
)
def scaled_triangular_softmax(self, inv_scale_attn, exp_sum_recpr=None, max=None):
    """Softmax over the lower triangle of ``self * inv_scale_attn``; with the other two, from what a forward pass kept."""
    scores = _lower_triangle(self.float() * inv_scale_attn)
    if exp_sum_recpr is None or max is None:
        return torch.softmax(scores, -1).to(self.dtype)
    return (torch.exp(scores - max.float()) * exp_sum_recpr.float()).to(self.dtype)


@operator(
    "scaled_triangular_softmax_retain(Tensor self, float inv_scale_attn) -> (Tensor, Tensor, Tensor)"
)
def scaled_triangular_softmax_retain(self, inv_scale_attn):
    """The same, with the reciprocal of each row's sum (float32) and each row's maximum."""
    scores = _lower_triangle(self.float() * inv_scale_attn)
    largest = scores.amax(-1, keepdim=True).to(self.dtype)
    exponents = torch.exp(scores - largest.float())
    reciprocal = exponents.sum(-1, keepdim=True).reciprocal()
    return (exponents * reciprocal).to(self.dtype), reciprocal, largest


@operator(
    "scaled_masked_triangular_softmax(Tensor self, Tensor start_end, float inv_scale_attn, int grouped_batch_size, "
    "bool use_max, int mode, ScalarType? out_dtype=None) -> Tensor"
)
def scaled_masked_triangular_softmax(
    self, start_end, inv_scale_attn, grouped_batch_size, use_max, mode, out_dtype=None
):
    """Softmax of ``self * inv_scale_attn`` over columns ``start <= c < end`` of each group of batches, and below the
    diagonal of a square matrix; rows that see nothing are zero. ``use_max`` and ``mode`` choose kernels, not numbers."""
    scores = self.float() * inv_scale_attn
    rows, columns = scores.shape[-2:]
    if rows == columns:
        scores = _lower_triangle(scores)
    bounds = start_end.reshape(-1, 2).repeat_interleave(grouped_batch_size, 0)
    position = torch.arange(columns, device=scores.device)
    seen = (position >= bounds[:, :1]) & (position < bounds[:, 1:])
    scores = scores.masked_fill(~seen.unsqueeze(1), float("-inf"))
    return torch.softmax(scores, -1).nan_to_num(nan=0.0).to(out_dtype or self.dtype)


@operator("custom_softmax(Tensor input, int flavor) -> Tensor")
def custom_softmax(input, flavor):
    """Softmax over the last dimension; ``flavor`` chooses a kernel, not numbers."""
    return torch.softmax(input, -1)
