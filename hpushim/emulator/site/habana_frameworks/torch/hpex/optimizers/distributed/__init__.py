"""Functional optimizers of the vendor's ``hpex`` package."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch.hpex.optimizers.distributed.FusedAdamW import FusedAdamW
