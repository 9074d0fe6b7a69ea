"""The kernels of SyncBatchNorm, which torch has for devices alone, in terms of plain operators on hpu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_kept: list[Any] = []


def register() -> None:
    """Gives torch the five kernels for hpu, once; a torch that lacks one of the operators goes without."""
    import torch

    if _kept:
        return
    library = torch.library.Library("aten", "IMPL")
    _kept.append(library)
    for kernel in (
        batch_norm_stats,
        batch_norm_gather_stats_with_counts,
        batch_norm_elemt,
        batch_norm_backward_reduce,
        batch_norm_backward_elemt,
    ):
        if hasattr(torch.ops.aten, kernel.__name__):
            library.impl(kernel.__name__, kernel, "HPU")


def batch_norm_stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation of every channel, in float32 for narrower types."""
    wide = _wide(x)
    sides = _sides(x)
    mean = wide.mean(sides)
    return mean, (wide.var(sides, correction=0) + eps).rsqrt()


def batch_norm_gather_stats_with_counts(
    x: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None,
    running_var: Tensor | None, momentum: float, eps: float, counts: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Mean and inverse deviation over all processes (rows of ``mean``); keeps the running ones."""
    weight = counts.to(mean.dtype).reshape(-1, 1)
    total = weight.sum()
    center = (mean * weight).sum(0) / total
    spread = ((invstd.pow(-2) - eps + (mean - center).square()) * weight).sum(0)
    if running_mean is not None:
        running_mean.lerp_(center.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((spread / (total - 1)).to(running_var.dtype), momentum)
    return center, (spread / total + eps).rsqrt()


def batch_norm_elemt(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """The input, normalized."""
    out = (_wide(x) - _row(mean, x)) * _row(invstd, x)
    if weight is not None:
        out = out * _row(weight, x)
    if bias is not None:
        out = out + _row(bias, x)
    return out.to(x.dtype)


def batch_norm_backward_reduce(
    grad: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None,
    input_g: bool, weight_g: bool, bias_g: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """Sums of this process for the gradients: of the input (two), of weight and bias."""
    wide, sides = _wide(grad), _sides(x)
    total = wide.sum(sides)
    along = (wide * (_wide(x) - _row(mean, x))).sum(sides)
    kind = total.dtype if weight is None else weight.dtype
    return (
        total if input_g else None,
        along if input_g else None,
        (along * invstd).to(kind) if weight_g else None,
        total.to(kind) if bias_g else None,
    )


def batch_norm_backward_elemt(
    grad: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None,
    sum_dy: Tensor, sum_dy_xmu: Tensor, count: Tensor,
) -> Tensor:  # fmt: skip
    """The input's gradient, from the sums over all processes."""
    total = count.sum()
    slope = sum_dy_xmu / total * invstd.square()
    out = _wide(grad) - _row(sum_dy / total, x) - (_wide(x) - _row(mean, x)) * _row(slope, x)
    scale = invstd if weight is None else invstd * weight
    return (out * _row(scale, x)).to(x.dtype)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.itemsize < 4 else x


def _sides(x: Tensor) -> list[int]:
    """Every dimension but the channels'."""
    return [0, *range(2, x.dim())]


def _row(values: Tensor, x: Tensor) -> Tensor:
    """One value for each channel, in the shape that goes with ``x``."""
    return values.reshape(1, -1, *([1] * (x.dim() - 2)))
