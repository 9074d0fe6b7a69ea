"""Adam's moments: their dtypes, 8-bit storage with a scale, and the update that both FusedAdamW classes share."""

from __future__ import annotations

import torch

_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
# Gaudi 2 keeps e4m3 within 240, not the 448 of the format as others use it.
_FP8_MAX = {torch.float8_e4m3fn: 240.0, torch.float8_e5m2: 57344.0}


def in_fp8(moments_dtype):
    """True if ``moments_dtype`` (None, a dtype, or a pair) names an 8-bit float."""
    both = moments_dtype if isinstance(moments_dtype, tuple) else (moments_dtype,)
    return any(one in _FP8 for one in both)


def dtypes(moments_dtype, param_dtype):
    """The pair of moment dtypes for a parameter of ``param_dtype``."""
    if moments_dtype is None:
        return param_dtype, param_dtype
    return moments_dtype if isinstance(moments_dtype, tuple) else (moments_dtype, moments_dtype)


def init(state, p, first, second, fp8):
    """Fill ``state`` with zero moments (and scales of one for 8-bit storage)."""
    for name, dtype in (("exp_avg", first), ("exp_avg_sq", second)):
        state[name] = torch.zeros(p.shape, dtype=torch.float32, device=p.device).to(dtype)
        if fp8:
            state[f"{name}_scale"] = torch.ones(1, dtype=p.dtype, device=p.device)


def _read(state, name, dtype):
    value = state[name]
    if value.dtype in _FP8:
        return value.to(dtype) / state[f"{name}_scale"].to(dtype)
    return value.to(dtype)


def _write(state, name, value):
    stored = state[name]
    if stored.dtype in _FP8:
        largest = value.abs().max()
        scale = torch.exp2(torch.floor(torch.log2(_FP8_MAX[stored.dtype] / largest)))
        # All zeros: the largest power of two is infinite, so the scale stays as it was.
        kept = state[f"{name}_scale"]
        kept.copy_(torch.where(torch.isfinite(scale), scale.to(kept.dtype), kept))
        value = value * kept.to(value.dtype)
    stored.copy_(value)


def adam_update(p, grad, state, beta1, beta2, eps, size, kept):
    """One Adam step in place: ``p = p * kept - size * m / (sqrt(v) + eps)``."""
    wide = torch.promote_types(
        p.dtype, state["exp_avg"].dtype if state["exp_avg"].dtype not in _FP8 else p.dtype
    )
    grad = grad.to(wide)
    first = _read(state, "exp_avg", wide) * beta1 + grad * (1.0 - beta1)
    second = _read(state, "exp_avg_sq", wide) * beta2 + grad * grad * (1.0 - beta2)
    _write(state, "exp_avg", first)
    _write(state, "exp_avg_sq", second)
    step = first / (second.sqrt() + eps) * -size
    p.copy_(p.to(wide) * kept + step if kept != 1.0 else p.to(wide) + step)
