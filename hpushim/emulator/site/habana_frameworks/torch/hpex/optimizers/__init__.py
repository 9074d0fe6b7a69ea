"""Fused optimizers of the vendor's ``hpex`` package, with the vendor's arguments and defaults."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch._not_modelled import module_getattr
from habana_frameworks.torch.hpex.optimizers.FusedAdagrad import FusedAdagrad
from habana_frameworks.torch.hpex.optimizers.FusedAdamW import FusedAdamW
from habana_frameworks.torch.hpex.optimizers.FusedLamb import FusedLamb
from habana_frameworks.torch.hpex.optimizers.FusedLars import FusedLars
from habana_frameworks.torch.hpex.optimizers.FusedResourceApplyMomentum import (
    FusedResourceApplyMomentum,
)
from habana_frameworks.torch.hpex.optimizers.FusedSGD import FusedSGD
from habana_frameworks.torch.hpex.optimizers.MarkstepAdam import Adam
from habana_frameworks.torch.hpex.optimizers.MarkstepAdamW import AdamW

__getattr__ = module_getattr(__name__)
