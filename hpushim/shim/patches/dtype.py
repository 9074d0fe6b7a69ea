"""Dtypes that Gaudi computes in another way than CUDA: said once, changed never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.patch import WARN, patch

Original = Callable[..., Any]


@patch("torch:Tensor.half", "torch.nn:Module.half", level=WARN)
def half(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Stays float16, which needs the loss scaling that the shim takes away; bfloat16 does not."""
    if _on_hpu(self):
        log.warn("HPU208", "half() stays float16 on HPU, without loss scaling; prefer .bfloat16()")
    return original(self, *args, **kwargs)


@patch("torch:Tensor.double", "torch.nn:Module.double", level=WARN)
def double(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """float64 has no kernels on Gaudi: it is computed on the CPU, or in float32."""
    if _on_hpu(self):
        log.warn("HPU117", "double() on HPU: Gaudi has no float64 kernels; use float32 or the CPU")
    return original(self, *args, **kwargs)


def _on_hpu(value: Any) -> bool:
    if hasattr(value, "parameters"):
        value = next(iter(value.parameters()), None)
    return devices.is_hpu(getattr(value, "device", None))
