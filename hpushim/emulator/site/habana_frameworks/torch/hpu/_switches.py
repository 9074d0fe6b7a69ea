"""Switches of the bridge that libraries turn: kept and answered, without effect on emulated results."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any

import torch

_state: dict[str, Any] = {
    "dynamic_shape": os.getenv("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", "0").lower() in ("1", "true"),
    "recompute_sdp": True,
}


def _turn(name: str, value: Any) -> None:
    _state[name] = value


def enable_dynamic_shape():
    """Let the bridge handle changing shapes (the ledger still counts each new shape as a compilation)."""
    _turn("dynamic_shape", True)


def disable_dynamic_shape():
    """Undo :func:`enable_dynamic_shape`."""
    _turn("dynamic_shape", False)


def get_dynamic_shape_status() -> bool:
    """True after :func:`enable_dynamic_shape`."""
    return _state["dynamic_shape"]


def enable_optim_output_sif():
    """Accepted, no effect on the emulated HPU."""
    _turn("optim_output_sif", True)


def disable_optim_output_sif():
    """Accepted, no effect on the emulated HPU."""
    _turn("optim_output_sif", False)


def enable_inference_mode():
    """Accepted, no effect on the emulated HPU."""
    _turn("inference_mode", True)


def disable_inference_mode():
    """Accepted, no effect on the emulated HPU."""
    _turn("inference_mode", False)


def enable_quantization():
    """Accepted, no effect on the emulated HPU."""
    _turn("quantization", True)


def disable_quantization():
    """Accepted, no effect on the emulated HPU."""
    _turn("quantization", False)


def enable_const_section_serialization(path, clear_path, use_compression):
    """Accepted, no effect on the emulated HPU: there are no compiled recipes to write."""
    _turn("const_section", str(path))


def disable_const_section_serialization():
    """Accepted, no effect on the emulated HPU."""
    _turn("const_section", "")


def enable_matmul3d_2d_reshape():
    """Accepted, no effect on the emulated HPU."""
    _turn("matmul3d_2d_reshape", True)


def disable_matmul3d_2d_reshape():
    """Accepted, no effect on the emulated HPU."""
    _turn("matmul3d_2d_reshape", False)


def enable_recompute_sdp(enabled: bool):
    """Choose the attention kernel that recomputes in backward (no number depends on it)."""
    _turn("recompute_sdp", bool(enabled))


def recompute_sdp_enabled():
    """True unless switched off."""
    return _state["recompute_sdp"]


@contextlib.contextmanager
def sdp_kernel(enable_recompute: bool = True):
    """:func:`enable_recompute_sdp` for the length of a block."""
    before = recompute_sdp_enabled()
    enable_recompute_sdp(enable_recompute)
    try:
        yield {}
    finally:
        enable_recompute_sdp(before)


def setDeterministic(val: bool) -> None:
    """Old way to ask for deterministic algorithms."""
    warnings.warn(
        "torch.hpu.setDeterministic is deprecated; use torch.use_deterministic_algorithms",
        stacklevel=2,
    )
    _turn("deterministic", bool(val))


def getDeterministic() -> bool:
    """What :func:`setDeterministic` was last given."""
    warnings.warn(
        "torch.hpu.getDeterministic is deprecated; use torch.are_deterministic_algorithms_enabled",
        stacklevel=2,
    )
    return _state.get("deterministic", False)


def set_sync_debug_mode(debug_mode) -> None:
    """Write the flag for asynchronous streams (environment PT_ENABLE_HABANA_STREAMASYNC)."""
    os.environ["PT_ENABLE_HABANA_STREAMASYNC"] = str(debug_mode)


def get_sync_debug_mode() -> int:
    """Read that flag; KeyError if it was never set, as on Gaudi."""
    return int(os.environ["PT_ENABLE_HABANA_STREAMASYNC"])


def set_autocast_hpu_enabled(enabled) -> None:
    """Switch autocast of this thread on or off."""
    torch.set_autocast_enabled("hpu", enabled)


def is_autocast_hpu_enabled() -> bool:
    """True inside ``torch.autocast("hpu")``."""
    return torch.is_autocast_enabled("hpu")


def set_autocast_hpu_dtype(dtype) -> None:
    """Choose autocast's dtype."""
    torch.set_autocast_dtype("hpu", dtype)


def get_autocast_hpu_dtype() -> Any:
    """Autocast's dtype, bfloat16 unless chosen otherwise."""
    return torch.get_autocast_dtype("hpu")
