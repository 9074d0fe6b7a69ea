"""The vendor's connectionist temporal classification loss, computed by torch's own."""

from __future__ import annotations

import torch
from torch.nn import functional


class CTCLoss(torch.autograd.Function):
    """``CTCLoss.apply(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)``."""

    @staticmethod
    def forward(
        ctx,
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank=0,
        reduction="mean",
        zero_infinity=False,
    ):
        arguments = (targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
        # The kernel's gradient is the derivative of the formula, so autograd of the formula is kept for backward.
        with torch.enable_grad():
            leaf = log_probs.detach().requires_grad_()
            loss = functional.ctc_loss(leaf, *arguments)
        ctx.leaf, ctx.loss = leaf, loss
        return loss.detach()

    @staticmethod
    def backward(ctx, loss_grad_in):
        (grad,) = torch.autograd.grad(ctx.loss, ctx.leaf, loss_grad_in)
        return grad, None, None, None, None, None, None
