"""Fused normalization and clipping of the vendor's ``hpex`` package."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch._not_modelled import module_getattr
from habana_frameworks.torch.hpex.normalization.FusedClipNorm import FusedClipNorm
from habana_frameworks.torch.hpex.normalization.FusedRMSNorm import FusedRMSNorm, RmsNormBwdMode

__getattr__ = module_getattr(__name__)
