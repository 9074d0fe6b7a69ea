"""The steps of LAMB, each over a list of tensors."""

from __future__ import annotations

from habana_frameworks.torch._operators._library import operator

import torch


@operator("optimizer_lamb_fused_norm(Tensor[] grad, float max_norm) -> Tensor")
def optimizer_lamb_fused_norm(grad, max_norm):
    """What the gradients are to be divided by: their norm over the limit where that is above one, else one; one element."""
    squares = torch.zeros(1, dtype=grad[0].dtype, device=grad[0].device)
    for one in grad:
        squares = squares + one.pow(2).sum()
    norm = squares.sqrt()
    return torch.where(norm > max_norm, norm / max_norm, torch.ones_like(norm))


@operator(
    "optimizer_lamb_phase1(Tensor[] gradients, Tensor[] weights, Tensor(a!)[] exp_avg, Tensor(b!)[] exp_avg_sq, "
    "Tensor(c!)[] out_weight_norms, Tensor(d!)[] out_adam_norms, Tensor(e!)[] out_adam_steps, Tensor clip_global_grad_norm, "
    "int grad_averaging, float beta1, float beta2, float epsilon, Tensor bias_correction1, Tensor bias_correction2, "
    "float weight_decay) -> ()"
)
def optimizer_lamb_phase1(
    gradients,
    weights,
    exp_avg,
    exp_avg_sq,
    out_weight_norms,
    out_adam_norms,
    out_adam_steps,
    clip_global_grad_norm,
    grad_averaging,
    beta1,
    beta2,
    epsilon,
    bias_correction1,
    bias_correction2,
    weight_decay,
):
    """Moves the averages on and writes each tensor's Adam step and both norms of the trust ratio."""
    share = 1.0 - beta1 if grad_averaging else 1.0
    for i, weight in enumerate(weights):
        grad = gradients[i] / clip_global_grad_norm
        exp_avg[i].mul_(beta1).add_(grad, alpha=share)
        exp_avg_sq[i].mul_(beta2).addcmul_(grad, grad, value=1.0 - beta2)
        average = exp_avg[i] / bias_correction1
        step = average / ((exp_avg_sq[i] / bias_correction2).sqrt() + epsilon)
        if weight_decay != 0:
            step = step + weight * weight_decay
        out_adam_steps[i].copy_(step)
        out_weight_norms[i].copy_(weight.norm().reshape(out_weight_norms[i].shape))
        out_adam_norms[i].copy_(step.norm().reshape(out_adam_norms[i].shape))


@operator(
    "optimizer_lamb_phase2(Tensor(a!)[] weights, Tensor[] adam_norms, Tensor[] weight_norms, Tensor[] adam_steps, "
    "Tensor neg_step, float wd, bool use_lamb) -> ()"
)
def optimizer_lamb_phase2(weights, adam_norms, weight_norms, adam_steps, neg_step, wd, use_lamb):
    """Adds each step times ``neg_step`` times the trust ratio, which is one without LAMB and decay."""
    for weight, adam, own, step in zip(weights, adam_norms, weight_norms, adam_steps, strict=True):
        ratio = torch.ones_like(own)
        if wd != 0 or use_lamb:
            ratio = torch.where((adam > 0) & (own > 0), own / adam, ratio)
        weight.add_(step * neg_step * ratio)
