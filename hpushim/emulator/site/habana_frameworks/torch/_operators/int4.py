"""Four-bit weights, eight to an int32, unpacked and scaled."""

from __future__ import annotations

from habana_frameworks.torch._operators._library import operator
from habana_frameworks.torch.utils.internal import is_lazy

import torch

_PER_WORD = 8


def _unpacked(packed, signed):
    """One value of four bits after the other, lowest bits first; int32, the last dimension eight times as long."""
    shifts = torch.arange(0, 4 * _PER_WORD, 4, dtype=torch.int32, device=packed.device)
    values = (packed.to(torch.int32).unsqueeze(-1) >> shifts) & 15
    if signed:
        values = torch.where(values > 7, values - 16, values)
    return values.flatten(-2)


def _spread(tensor, shape):
    """Repeat the rows of a scale or zero point of one group for each row of the group."""
    if tensor.dim() == len(shape) and tensor.shape[0] not in (1, shape[0]):
        return tensor.repeat_interleave(shape[0] // tensor.shape[0], 0)
    return tensor


def _converted(input, scale, zero_point, out_dtype, signed):
    values = _unpacked(input, signed)
    scale = _spread(scale, values.shape).to(out_dtype)
    if zero_point is None:
        return values.to(out_dtype) * scale
    if zero_point.dtype == torch.int32:  # packed as the values are
        return (values - _spread(_unpacked(zero_point, signed), values.shape)).to(out_dtype) * scale
    return (values.to(out_dtype) - _spread(zero_point, values.shape).to(out_dtype)) * scale


# Neither is available in eager mode: there, asking for them fails as for any unknown operator.
if is_lazy():

    @operator(
        "convert_from_int4(Tensor input, Tensor scale, Tensor? zero_point, ScalarType out_dtype) -> Tensor"
    )
    def convert_from_int4(input, scale, zero_point, out_dtype):
        """``(input - zero_point) * scale`` of signed values."""
        return _converted(input, scale, zero_point, out_dtype, signed=True)

    @operator(
        "convert_from_uint4(Tensor input, Tensor scale, Tensor? zero_point, ScalarType out_dtype) -> Tensor"
    )
    def convert_from_uint4(input, scale, zero_point, out_dtype):
        """``(input - zero_point) * scale`` of unsigned values."""
        return _converted(input, scale, zero_point, out_dtype, signed=False)
