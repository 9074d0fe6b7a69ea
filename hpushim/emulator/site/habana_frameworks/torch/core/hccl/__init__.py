"""The old place of ``habana_frameworks.torch.distributed.hccl``."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu
