"""``quantized_decomposed``: the device computes in the input's dtype, and rounds to whole numbers only where it stores some.

Torch's own definitions, which the CPU keeps, compute in float32 and round for eight-bit floats too.
"""

from __future__ import annotations

from habana_frameworks.torch._operators.fp8 import _EIGHT_BITS

import torch

# Torch declares these operators when torch.ao.quantization.fx._decomposed is imported: the kernels wait for that.
_library = torch.library.Library("quantized_decomposed", "IMPL")


def _quantized(scaled, zero_point, least, largest, dtype):
    whole = scaled if dtype in _EIGHT_BITS else scaled.round()
    return (whole + zero_point).clamp(least, largest).to(dtype)


def _quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    if isinstance(scale, torch.Tensor):
        scale = scale.to(input.dtype)
    return _quantized(input / scale, zero_point, quant_min, quant_max, dtype)


def _along(values, input, axis):
    shape = [1] * input.dim()
    shape[axis] = -1
    return values.reshape(shape)


def _quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype):
    scaled = input * _along(scales.to(input.dtype).reciprocal(), input, axis)
    return _quantized(scaled, _along(zero_points, input, axis), quant_min, quant_max, dtype)


def _dequantize_per_channel(
    input, scales, zero_points, axis, quant_min, quant_max, dtype, *, out_dtype=None
):
    wide = input.float()
    if zero_points is not None:
        wide = wide - _along(zero_points, input, axis)
    return (wide * _along(scales, input, axis)).to(out_dtype or torch.float32)


for _overload in ("", ".tensor", ".tensor2"):
    _library.impl(f"quantize_per_tensor{_overload}", _quantize_per_tensor, "HPU")
_library.impl("quantize_per_channel", _quantize_per_channel, "HPU")
_library.impl("dequantize_per_channel", _dequantize_per_channel, "HPU")
