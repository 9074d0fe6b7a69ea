"""Old ways to load the bridge; it is loaded when this package is."""

from __future__ import annotations


def is_habana_available():
    """True: an (emulated) device is there."""
    from habana_frameworks.torch import hpu

    return hpu.is_available()


def load_habana_module():
    """Nothing to do: the device is loaded with the package."""


def load_habana_profiler():
    """Nothing to do: there is no vendor profiler here; use torch.profiler."""
