"""The ``torch.backends`` entry point of the vendor's package: ``import torch`` brings the device by itself."""

from __future__ import annotations

import os

is_loaded = False


def is_autoload_enabled():
    """True in eager mode, and in lazy mode if PT_HPU_AUTOLOAD is 1, as the vendor's package decides."""
    lazy = os.getenv("PT_HPU_LAZY_MODE", "0") != "0"
    return os.getenv("PT_HPU_AUTOLOAD", "0" if lazy else "1") == "1"


def __autoload():
    # Named by the entry point; torch calls it at the end of its import.
    if not is_loaded and is_autoload_enabled():
        import habana_frameworks.torch  # noqa: F401
