"""The old place of ``initialize_distributed_hpu``."""

from __future__ import annotations

import warnings

from habana_frameworks.torch.distributed import hccl


def initialize_distributed_hpu():
    """Deprecated: see ``habana_frameworks.torch.distributed.hccl``."""
    warnings.warn(
        "initialize_distributed_hpu has moved to habana_frameworks.torch.distributed.hccl",
        DeprecationWarning,
        2,
    )
    return hccl.initialize_distributed_hpu()
