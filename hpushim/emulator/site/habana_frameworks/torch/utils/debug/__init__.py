"""Debug switches of the bridge: the flags are kept, and change no result on the emulated HPU."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
import logging

from habana_frameworks.torch._not_modelled import not_modelled
from habana_frameworks.torch.utils.debug.logger import Logger
from habana_frameworks.torch.utils.internal import is_lazy

_log = logging.getLogger("habana_frameworks.torch.hpu.graphs")
_flags: dict[str, bool] = {"synapse_layout_handling": True}


def _hg_print(*args) -> None:
    _log.debug("%s", " ".join(str(one) for one in args))


def _is_enabled_synapse_layout_handling() -> bool:
    return _flags["synapse_layout_handling"]


def _enable_synapse_layout_handling() -> None:
    _flags["synapse_layout_handling"] = True


def _enable_weight_permute_pass(flag) -> None:
    _flags["weight_permute_pass"] = bool(flag)


def _enable_fuse_conv_bn_optimization(flag) -> None:
    _flags["fuse_conv_bn_optimization"] = bool(flag)


def _bridge_cleanup() -> None:
    """Nothing to clean up: the bridge's caches of graphs and recipes are not there."""


def get_tensor_info(tensor):
    """Address and size in bytes of an hpu tensor; None for others."""
    return (
        (tensor.data_ptr(), tensor.untyped_storage().nbytes())
        if tensor.device.type == "hpu"
        else None
    )


def clear_dynamic_bucket_recipe_info() -> None:
    """Nothing to clear: there are no recipes."""


def save_ds_checkpoint(path) -> None:
    """Not available: there are no dynamic-shape recipes to save."""
    raise not_modelled("utils.debug.save_ds_checkpoint")


def load_ds_checkpoint(path) -> None:
    """Not available: there are no dynamic-shape recipes to load."""
    raise not_modelled("utils.debug.load_ds_checkpoint")
