"""Eight-bit floats: casts with a scale, matrix products, convolution, softmax and sum."""

from __future__ import annotations

from habana_frameworks.torch._operators._library import operator

import torch
from hpushim.emulator import profiles

_E5M2, _E4M3 = torch.float8_e5m2, torch.float8_e4m3fn
_EIGHT_BITS = (_E5M2, _E4M3)
# bits of the mantissa, exponent of the smallest normal number
_FORMAT = {_E5M2: (2, -14), _E4M3: (3, -6)}


def _largest(dtype):
    """The largest finite value that this generation keeps in the dtype."""
    return profiles.current().largest(str(dtype).removeprefix("torch."))


def _factor(scale, like, shape=None):
    """A scale, however it was given, as a tensor of ``like``'s dtype; None stays None."""
    if scale is None:
        return None
    if not isinstance(scale, torch.Tensor):
        scale = torch.tensor(scale, dtype=torch.float32, device=like.device)
    if shape:
        scale = scale.reshape(shape)
    return scale.to(like.dtype)


def _scaled(tensor, scale, shape=None):
    factor = _factor(scale, tensor, shape)
    if factor is None:
        return tensor
    return tensor * (factor.squeeze() if factor.numel() == 1 else factor)


def _rounded_at_random(values, dtype):
    """Up or down to a neighbour in ``dtype``, the nearer the likelier; float32."""
    mantissa, smallest = _FORMAT[dtype]
    _, exponent = torch.frexp(values)
    step = torch.ldexp(torch.ones_like(values), (exponent - 1).clamp(min=smallest) - mantissa)
    magnitude = torch.floor(values.abs() / step + torch.rand_like(values)) * step
    return torch.copysign(magnitude, values)


def _narrowed(values, dtype, at_random):
    """``values`` in eight bits: what is too large becomes the largest finite value."""
    wide = values.float()
    if at_random:
        wide = _rounded_at_random(wide, dtype)
    return wide.clamp(-_largest(dtype), _largest(dtype)).to(dtype)


def _amax(tensor, wanted):
    if wanted:
        return tensor.abs().max().float()
    return torch.empty(0, dtype=torch.float32, device=tensor.device)


def _cast(tensor, scale, at_random, is_amax, dtype, shape=None):
    dtype = dtype or _E5M2
    if tensor.dtype in _EIGHT_BITS:
        if is_amax:
            raise RuntimeError("CastToFp8V2 must have no amax for float8.")
        if tensor.dtype != dtype:
            names = [str(one).replace("torch.f", "F") for one in (tensor.dtype, dtype)]
            raise RuntimeError(
                "CastToFp8V2 input and output must have the same dtype for float8, but are "
                f"{names[0]} and {names[1]}"
            )
        wide = _scaled(tensor.float(), scale, shape)
        return _narrowed(wide, dtype, at_random), _amax(wide, False)
    return _narrowed(_scaled(tensor, scale, shape), dtype, at_random), _amax(tensor, is_amax)


@operator(
    "cast_to_fp8_v2(Tensor input, Tensor? scale=None, bool stochastic_rounding=False, bool is_amax=False, "
    "ScalarType? dtype=None, int[]? scale_shape=None) -> (Tensor, Tensor)",
    random=True,
)
@operator(
    "cast_to_fp8_v2.scalar(Tensor input, float scale, bool stochastic_rounding=False, bool is_amax=False, "
    "ScalarType? dtype=None, int[]? scale_shape=None) -> (Tensor, Tensor)",
    random=True,
)
@operator(
    "cast_to_fp8_v2.scalar_list(Tensor input, float[] scale, bool stochastic_rounding=False, bool is_amax=False, "
    "ScalarType? dtype=None, int[]? scale_shape=None) -> (Tensor, Tensor)",
    random=True,
)
def cast_to_fp8_v2(
    input, scale=None, stochastic_rounding=False, is_amax=False, dtype=None, scale_shape=None
):
    """``input * scale`` in eight bits (float8_e5m2 unless ``dtype`` says otherwise), and the largest magnitude of ``input``
    (no elements unless ``is_amax``)."""
    return _cast(input, scale, stochastic_rounding, is_amax, dtype, scale_shape)


@operator(
    "cast_to_fp8(Tensor input, Tensor? scale, bool stochastic_rounding, Tensor(a!) out, Tensor(b!) amax) "
    "-> (Tensor(a!), Tensor(b!))",
    random=True,
)
def cast_to_fp8(input, scale, stochastic_rounding, out, amax):
    """The older form of :func:`cast_to_fp8_v2`, into tensors that are there."""
    casted, largest = _cast(input, scale, stochastic_rounding, amax.numel() > 0, out.dtype)
    out.copy_(casted)
    if amax.numel():
        amax.copy_(largest.reshape(amax.shape))
    return out, amax


@operator(
    "cast_to_fp8_hybrid(Tensor input, Tensor? scale_152=None, Tensor? scale_143=None, bool stochastic_rounding=False, "
    "bool is_amax=False) -> (Tensor, Tensor, Tensor)",
    random=True,
)
def cast_to_fp8_hybrid(
    input, scale_152=None, scale_143=None, stochastic_rounding=False, is_amax=False
):
    """Both formats at once: e5m2 (rounded at random if requested), e4m3, and the largest magnitude."""
    low, amax = _cast(input, scale_152, stochastic_rounding, is_amax, _E5M2)
    high, _ = _cast(input, scale_143, False, False, _E4M3)
    return low, high, amax


@operator(
    "cast_from_fp8(Tensor input, Tensor? scale, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor"
)
@operator(
    "cast_from_fp8.scalar(Tensor input, float scale, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor"
)
@operator(
    "cast_from_fp8.scalar_list(Tensor input, float[] scale, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor"
)
def cast_from_fp8(input, scale, out_dtype, scale_shape=None):
    """``input`` in ``out_dtype``, times ``scale``."""
    return _scaled(input.to(out_dtype), scale, scale_shape)


def _transposed(tensor, wanted):
    return tensor.transpose(-2, -1) if wanted and tensor.dim() > 1 else tensor


def _product(A, trans_A, B, trans_B, D, A_scale, B_scale, bias, accumulate, B_shape):
    wide = torch.matmul(_transposed(A.float(), trans_A), _transposed(B.float(), trans_B))
    wide = _scaled(_scaled(wide, A_scale), B_scale, B_shape)
    if bias is not None:
        wide = wide + bias.float()
    return wide + D.float() if accumulate and D is not None else wide


@operator(
    "fp8_gemm_v2(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor? D, ScalarType out_dtype, "
    "Tensor? A_scale_inv=None, Tensor? B_scale_inv=None, Tensor? bias=None, bool accumulate=False, "
    "int[]? B_scale_shape=None) -> Tensor"
)
@operator(
    "fp8_gemm_v2.scalar(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor? D, ScalarType out_dtype, "
    "float A_scale_inv, float B_scale_inv, Tensor? bias=None, bool accumulate=False, int[]? B_scale_shape=None) -> Tensor"
)
@operator(
    "fp8_gemm_v2.scalar_list(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor? D, ScalarType out_dtype, "
    "float[] A_scale_inv, float[] B_scale_inv, Tensor? bias=None, bool accumulate=False, int[]? B_scale_shape=None) -> Tensor"
)
def fp8_gemm_v2(
    A,
    trans_A,
    B,
    trans_B,
    D,
    out_dtype,
    A_scale_inv=None,
    B_scale_inv=None,
    bias=None,
    accumulate=False,
    B_scale_shape=None,
):
    """``A @ B`` times both scales, plus ``bias``, plus ``D`` if ``accumulate``; summed in float32."""
    wide = _product(
        A, trans_A, B, trans_B, D, A_scale_inv, B_scale_inv, bias, accumulate, B_scale_shape
    )
    return wide.to(out_dtype)


@operator(
    "fp8_gemm(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor D, ScalarType out_dtype, Tensor? A_scale_inv, "
    "Tensor? B_scale_inv, Tensor? bias, bool accumulate, Tensor(a!) out) -> Tensor(a!)"
)
def fp8_gemm(A, trans_A, B, trans_B, D, out_dtype, A_scale_inv, B_scale_inv, bias, accumulate, out):
    """The older form of :func:`fp8_gemm_v2`, into ``out``."""
    wide = _product(A, trans_A, B, trans_B, D, A_scale_inv, B_scale_inv, bias, accumulate, None)
    return out.copy_(wide.to(out_dtype))


@operator(
    "conv2d_fp8(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, "
    "SymInt[2] dilation=1, int groups=1, ScalarType? out_dtype=None, Tensor? scale_input=None, "
    "Tensor? scale_weight=None) -> Tensor"
)
@operator(
    "conv2d_fp8.scalar(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, "
    "SymInt[2] dilation=1, int groups=1, ScalarType? out_dtype=None, float scale_input=1.0, float scale_weight=1.0) -> Tensor"
)
def conv2d_fp8(
    input,
    weight,
    bias=None,
    stride=1,
    padding=0,
    dilation=1,
    groups=1,
    out_dtype=None,
    scale_input=None,
    scale_weight=None,
):
    """A convolution of eight-bit tensors, times both scales, plus ``bias``; ``out_dtype`` is bfloat16 unless given."""
    wide = torch.nn.functional.conv2d(
        input.float(), weight.float(), None, stride, padding, dilation, groups
    )
    wide = _scaled(_scaled(wide, scale_input), scale_weight)
    if bias is not None:
        wide = wide + bias.float().reshape(1, -1, 1, 1)
    return wide.to(out_dtype or torch.bfloat16)


@operator(
    "softmax_fp8(Tensor input, int dim, Tensor? input_scale=None, Tensor? output_scale=None, Tensor? inv_attn_heads=None, "
    "Tensor? fused_add=None) -> Tensor"
)
@operator(
    "softmax_fp8.Scalar_scales(Tensor input, int dim, float input_scale, float output_scale, Tensor? inv_attn_heads=None, "
    "Tensor? fused_add=None) -> Tensor"
)
@operator(
    "softmax_fp8.Scalar(Tensor input, int dim, float input_scale, float output_scale, float inv_attn_heads, "
    "Tensor? fused_add=None) -> Tensor"
)
def softmax_fp8(
    input, dim, input_scale=None, output_scale=None, inv_attn_heads=None, fused_add=None
):
    """Softmax of the scaled input: in float8_e4m3fn, times ``output_scale``, where the scales are given, else in bfloat16."""
    wide = _scaled(_scaled(input.float(), inv_attn_heads), input_scale)
    if fused_add is not None:
        wide = wide + fused_add.float()
    result = torch.softmax(wide, dim)
    if output_scale is None:
        return result.to(torch.bfloat16)
    return _narrowed(_scaled(result, output_scale), _E4M3, at_random=False)


@operator(
    "sum_fp8(Tensor self, int[1]? dim=None, bool keepdim=False, ScalarType? out_dtype=None) -> Tensor"
)
def sum_fp8(self, dim=None, keepdim=False, out_dtype=None):
    """A sum in float32, rounded to ``out_dtype`` or to the dtype of the input."""
    total = torch.sum(self.float(), dim, keepdim)
    dtype = out_dtype or self.dtype
    return _narrowed(total, dtype, at_random=False) if dtype in _EIGHT_BITS else total.to(dtype)
