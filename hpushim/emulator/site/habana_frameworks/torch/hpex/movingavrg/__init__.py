"""Moving averages of the vendor's ``hpex`` package."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch._not_modelled import module_getattr
from habana_frameworks.torch.hpex.movingavrg.FusedEMA import FusedEMA

__getattr__ = module_getattr(__name__)
