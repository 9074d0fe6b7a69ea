"""Inference preparation of the vendor's package: flags here, since emulated results do not depend on them."""

from __future__ import annotations

from os import getenv

from habana_frameworks.torch import hpu
from habana_frameworks.torch.internal import fuse_conv_bn

_const_ids: dict[int, int] = {}


def adjust_name(name):
    """A parameter's name as calibration files spell it."""
    for old, new in ((".min_val", ""), (".max_val", ""), ("layernorm.norm", "layernorm")):
        name = name.replace(old, new)
    return name


def check_env_flag(name, default=""):
    """True if environment variable ``name`` holds a yes."""
    return getenv(name, default).upper() in ["ON", "1", "YES", "TRUE", "Y"]


def _mark_params_as_const(model=None, only_scales=False, console_prints=False) -> None:
    for name, tensor in ({} if model is None else model.state_dict()).items():
        if not only_scales or "scale" in name:
            _const_ids.setdefault(id(tensor), len(_const_ids))


def _get_marked_const_count() -> int:
    return len(_const_ids)


def _check_params_as_const(model=None, only_scales=False) -> None:
    """Nothing to check: marks change no result on the emulated HPU."""


def hpu_set_env(model=None):
    """Switch inference mode on; returns the model, convolution and batch norm fused if one is given."""
    hpu.enable_inference_mode()
    hpu.enable_matmul3d_2d_reshape()
    return None if model is None else fuse_conv_bn.fuse(model)


def hpu_reset_env():
    """Undo :func:`hpu_set_env`'s switches."""
    hpu.disable_inference_mode()
    hpu.disable_matmul3d_2d_reshape()


def hpu_initialize(model=None, mark_only_scales_as_const=False, optimizer=None, args=None):
    """Mark the model's parameters as constants for the graph compiler (bookkeeping only)."""
    _mark_params_as_const(model, mark_only_scales_as_const)


def hpu_set_inference_env(model=None):
    """As :func:`hpu_set_env`."""
    return hpu_set_env(model)


def hpu_inference_initialize(
    model=None, mark_only_scales_as_const=False, optimizer=None, args=None
):
    """As :func:`hpu_initialize`."""
    hpu_initialize(model, mark_only_scales_as_const, optimizer, args)


def hpu_teardown_inference_env():
    """As :func:`hpu_reset_env`."""
    hpu_reset_env()
