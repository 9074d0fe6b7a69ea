"""The vendor's approximate softmax over the last dimension, computed exactly here."""

from __future__ import annotations

import torch


class CustomSoftmax(torch.autograd.Function):
    """``CustomSoftmax.apply(inp, flavor)``; both flavors (0, 1) give the plain softmax on the emulated HPU."""

    @staticmethod
    def forward(ctx, inp, flavor):
        if inp.dtype != torch.bfloat16:
            raise RuntimeError(
                f"CustomSoftmax takes bfloat16 on Gaudi, found {inp.dtype}; cast the input or use torch.softmax"
            )
        result = torch.softmax(inp, dim=-1)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return torch._softmax_backward_data(
            grad_output, result, result.dim() - 1, result.dtype
        ), None
