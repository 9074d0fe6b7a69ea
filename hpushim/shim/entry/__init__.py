"""The ``torch.backends`` entry point: ``HPUSHIM=…`` in the environment arms every process that imports torch.

A package of its own, because ``import hpushim`` arms by itself and torch loads this one in every
process of the environment.
"""

from __future__ import annotations

import os


def autoload() -> None:
    """Called by torch at the end of ``import torch``; does nothing unless ``HPUSHIM`` asks for it."""
    if os.environ.get("HPUSHIM", "").strip().lower() in ("", "0", "off"):
        return
    import hpushim

    hpushim.activate()
