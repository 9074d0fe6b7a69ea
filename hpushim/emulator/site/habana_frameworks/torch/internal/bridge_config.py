"""Settings of the bridge as it reads them from the environment, for the few that programs ask for."""

from __future__ import annotations

import contextlib
import os

from habana_frameworks.torch._not_modelled import module_getattr


def _flag(name, default):
    found = os.environ.get(name, "").strip().lower()
    return found in ("1", "true", "yes", "on", "y") if found else default


def get_pt_hpu_gpu_migration() -> bool:
    """Is the vendor's migration toolkit requested?"""
    return _flag("PT_HPU_GPU_MIGRATION", False)


def get_pt_enable_comm_group_cache() -> bool:
    """Are process groups kept by their ranks? Release 1.19 forgets them before each look-up."""
    return _flag("PT_ENABLE_COMM_GROUP_CACHE", True)


def get_pt_enable_int64_support() -> bool:
    """Is int64 requested to be 64 bits wide where the mode would narrow it?"""
    return _flag("PT_ENABLE_INT64_SUPPORT", False)


@contextlib.contextmanager
def env_setting(name, value):
    """A setting for a block; what the emulated device reads only at its start is not changed by it."""
    before = os.environ.get(name)
    os.environ[name] = str(value)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


__getattr__ = module_getattr(__name__)
