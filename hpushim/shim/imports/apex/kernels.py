"""What apex has fused kernels for, said with torch: norms, clipping; ``multi_tensor_applier`` is not available."""

from __future__ import annotations

from typing import Any

import torch

from hpushim.shim import log


class FusedLayerNorm(torch.nn.LayerNorm):  # type: ignore[misc]
    """torch's LayerNorm."""


class FusedRMSNorm(torch.nn.RMSNorm):  # type: ignore[misc]
    """torch's RMSNorm."""


MixedFusedLayerNorm = FusedLayerNorm
MixedFusedRMSNorm = FusedRMSNorm


class MultiTensorApply:
    """Not available, which sends callers to their own loops."""

    available = False

    def __init__(self, chunk_size: int = 0) -> None:
        self.chunk_size = chunk_size

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        log.refuse(
            "HPU602",
            "apex multi_tensor_applier runs CUDA code",
            "ask multi_tensor_applier.available first, or use torch._foreach functions",
        )


multi_tensor_applier = MultiTensorApply(2048 * 32)


def clip_grad_norm_(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Any:
    """torch's own."""
    return torch.nn.utils.clip_grad_norm_(parameters, max_norm, *args, **kwargs)
