"""Core of the vendor's package: step marks, inference preparation, and ``hpu`` under its other name."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch import hpu
from habana_frameworks.torch._not_modelled import module_getattr
from habana_frameworks.torch.core import _reading, quantization, step_closure
from habana_frameworks.torch.core.quantization import (
    hpu_inference_initialize,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
)
from habana_frameworks.torch.core.step_closure import add_step_closure, iter_mark_step, mark_step
from habana_frameworks.torch.utils.internal import is_lazy

_reading.install()

__getattr__ = module_getattr(__name__)
