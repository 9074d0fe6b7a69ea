"""The emulated HPU in the vendor's clothes: importing this package makes ``torch.hpu`` and device ``hpu``."""

from __future__ import annotations

# ruff: noqa: E402, F401 (names that users import from here)
import os

# torch.compile's worker pool is of no use without inductor, and forked workers would hold the device.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import habana_frameworks.autoload

habana_frameworks.autoload.is_loaded = True

import warnings

import torch
from hpushim.emulator import enabling as _arming

_arming.dress_torch()

from habana_frameworks.torch import (
    _operators,
    activity_profiler,
    core,
    distributed,
    dynamo,
    hpu,
    utils,
)
from habana_frameworks.torch._not_modelled import module_getattr
from habana_frameworks.torch.distributed import hccl
from habana_frameworks.torch.internal import bridge_config
from habana_frameworks.torch.utils.internal import is_lazy

is_torch_fork = False


def overwrite_torch_optimizers():
    """With PT_HPU_REPLACE_ADAM_ADAMW, put step marks into torch's Adam and AdamW; nothing otherwise."""
    if os.environ.get("PT_HPU_REPLACE_ADAM_ADAMW", "0").lower() not in ("1", "true", "yes"):
        return
    from habana_frameworks.torch.hpex.optimizers import Adam, AdamW

    torch.optim.Adam, torch.optim.AdamW = Adam, AdamW
    torch.optim.adam.Adam, torch.optim.adamw.AdamW = Adam, AdamW


overwrite_torch_optimizers()
if bridge_config.get_pt_hpu_gpu_migration():
    try:
        from habana_frameworks.torch import gpu_migration
    except ImportError:
        warnings.warn(
            "PT_HPU_GPU_MIGRATION=1 requests habana_frameworks.torch.gpu_migration, which is not installed",
            stacklevel=2,
        )

__getattr__ = module_getattr(
    __name__,
    gpu_migration="the vendor's migration toolkit is closed; hpushim does its work: `import hpushim` in the script",
)
