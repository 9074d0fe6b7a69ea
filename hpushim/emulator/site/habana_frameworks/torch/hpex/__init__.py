"""Extensions of the vendor's package: fused kernels, norms, optimizers (emulated: right, not fast)."""

from __future__ import annotations

from habana_frameworks.torch._not_modelled import module_getattr

__getattr__ = module_getattr(
    __name__,
    hmp="mixed precision of the early releases was dropped by the vendor; use torch.autocast('hpu', torch.bfloat16)",
)
