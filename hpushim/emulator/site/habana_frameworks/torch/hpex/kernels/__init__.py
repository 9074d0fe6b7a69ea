"""Fused operators of the vendor's ``hpex`` package, computed from torch operators (emulated: right, not fast)."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch._not_modelled import module_getattr
from habana_frameworks.torch.hpex.kernels.CTCLoss import CTCLoss
from habana_frameworks.torch.hpex.kernels.CustomSoftmax import CustomSoftmax
from habana_frameworks.torch.hpex.kernels.Fp8FusedSDPA import fp8_fused_sdpa
from habana_frameworks.torch.hpex.kernels.FusedSDPA import FusedSDPA
from habana_frameworks.torch.hpex.kernels.PySDPA import PySDPA, PySDPAHinted
from habana_frameworks.torch.hpex.kernels.RotaryPosEmbeddingHelper import (
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3,
    RotaryPosEmbeddingMode,
    apply_rotary_pos_emb,
)
from habana_frameworks.torch.utils.internal import is_lazy

__getattr__ = module_getattr(__name__)
