"""Reordering caches of keys and values, plain indexing, and arithmetic that trades accuracy for time."""

from __future__ import annotations

from habana_frameworks.torch._operators._library import operator

import torch


def _beams(packed):
    """Four beam numbers of two bits each from a byte, the first one in the highest bits."""
    shifts = torch.tensor([6, 4, 2, 0], dtype=torch.int64, device=packed.device)
    return (packed.to(torch.int64).unsqueeze(-1) >> shifts) & 3


def _reordered(cache, start, end, beam_idx):
    """A copy of ``cache`` in which, in each batch, rows ``start`` to ``end`` come from the beams that ``beam_idx`` names."""
    length = cache.shape[-2]
    position = torch.arange(length, device=cache.device)
    chosen = (position >= start.reshape(-1, 1)) & (position < end.reshape(-1, 1))
    batch = torch.arange(cache.shape[0], device=cache.device).unsqueeze(1)
    source = cache[batch, _beams(beam_idx)]
    shape = (cache.shape[0], *([1] * (cache.dim() - 3)), length, 1)
    return torch.where(chosen.reshape(shape), source, cache)


@operator("kv_reorder_(Tensor(a!) self, Tensor start, Tensor end, Tensor beam_idx) -> Tensor(a!)")
def kv_reorder_(self, start, end, beam_idx):
    """Reorders a cache ``(batch, 4 beams, …, length, features)`` in place."""
    return self.copy_(_reordered(self, start, end, beam_idx))


@operator("kv_reorder(Tensor self, Tensor start, Tensor end, Tensor beam_idx) -> Tensor")
def kv_reorder(self, start, end, beam_idx):
    """The same into a new tensor."""
    return _reordered(self, start, end, beam_idx)


def _interleaved(tensor):
    return tensor[torch.arange(tensor.shape[0], device=tensor.device) // 4]


@operator("in_place_interleave_(Tensor(a!) self) -> Tensor(a!)")
def in_place_interleave_(self):
    """Each of the first quarter of the rows four times, in place."""
    return self.copy_(_interleaved(self))


@operator("in_place_interleave(Tensor self) -> Tensor")
def in_place_interleave(self):
    """The same into a new tensor."""
    return _interleaved(self)


@operator("plain_index(Tensor self, Tensor[] indices) -> Tensor")
def plain_index(self, indices):
    """``self[indices]`` with an index for each of the first dimensions."""
    return self[tuple(indices)]


@operator(
    "masked_batch_gemm(Tensor a, Tensor b, Tensor mask_a, Tensor mask_b, bool trans_a, bool trans_b) -> Tensor"
)
def masked_batch_gemm(a, b, mask_a, mask_b, trans_a, trans_b):
    """``a @ b + mask_a @ mask_b``, each transposed first if requested."""
    if trans_a:
        a, mask_a = a.transpose(-2, -1), mask_a.transpose(-2, -1)
    if trans_b:
        b, mask_b = b.transpose(-2, -1), mask_b.transpose(-2, -1)
    return torch.matmul(a, b) + torch.matmul(mask_a, mask_b)


@operator("exp_fast_math(Tensor self) -> Tensor")
def exp_fast_math(self):
    """``torch.exp``; the device's kernel is quicker and less exact."""
    return torch.exp(self)


@operator("sqrt_fast_math(Tensor self) -> Tensor")
def sqrt_fast_math(self):
    """``torch.sqrt``; the device's kernel is quicker and less exact."""
    return torch.sqrt(self)


@operator("rsqrt_fast_math(Tensor self) -> Tensor")
def rsqrt_fast_math(self):
    """``torch.rsqrt``; the device's kernel is quicker and less exact."""
    return torch.rsqrt(self)
