"""Legacy tensor types such as ``torch.hpu.FloatTensor``."""

from __future__ import annotations

import torch


def _legacy_type(name: str, dtype: torch.dtype) -> type[torch.Tensor]:
    """A type whose call makes an hpu tensor of ``dtype`` from data."""

    def new(cls, *args, **kwargs):
        for what, wanted in (("device", "hpu"), ("dtype", dtype)):
            found = kwargs.pop(what, None)
            if found is not None and found != wanted:
                raise RuntimeError(
                    f"legacy constructor expects {what}: {wanted} but {what}: {found} was passed"
                )
        return torch.Tensor._make_subclass(
            cls, torch.tensor(*args, device="hpu", dtype=dtype, **kwargs)
        )

    return type(name, (torch.Tensor,), {"__new__": staticmethod(new), "__module__": "torch.hpu"})


BFloat16Tensor = _legacy_type("BFloat16Tensor", torch.bfloat16)
BoolTensor = _legacy_type("BoolTensor", torch.bool)
ByteTensor = _legacy_type("ByteTensor", torch.uint8)
CharTensor = _legacy_type("CharTensor", torch.int8)
DoubleTensor = _legacy_type("DoubleTensor", torch.float64)
FloatTensor = _legacy_type("FloatTensor", torch.float32)
HalfTensor = _legacy_type("HalfTensor", torch.float16)
IntTensor = _legacy_type("IntTensor", torch.int32)
LongTensor = _legacy_type("LongTensor", torch.int64)
ShortTensor = _legacy_type("ShortTensor", torch.int16)
