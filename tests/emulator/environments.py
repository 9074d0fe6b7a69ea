"""Environments for processes that tests start."""

from __future__ import annotations

import os


def plain_environment(**changes: str) -> dict[str, str]:
    """This environment without hpushim's variables and torchrun's, one thread; ``changes`` on top."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("HPUSHIM_CACHE_DIR",) or not name.startswith(("HPUSHIM", "PT_HPU", "RANK"))
    }
    return {**kept, "HPUSHIM": "off", "HPUSHIM_LOG": "quiet", "OMP_NUM_THREADS": "1", **changes}
