"""What hpushim does in processes that do not import it: nothing, unless ``HPUSHIM`` is set.

A package of its own, because ``import hpushim`` enables by itself and these are loaded in every process of the
environment: :func:`autoload` by torch (entry point ``torch.backends``), :func:`offer_look_alike` by Python, through
``hpushim.pth``, and only where ``HPUSHIM=emulate``.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def autoload() -> None:
    """Called by torch at the end of ``import torch``; does nothing unless ``HPUSHIM`` requests it."""
    if os.environ.get("HPUSHIM", "").strip().lower() in ("", "0", "off"):
        return
    import hpushim

    hpushim.activate()


def offer_look_alike() -> None:
    """From now on, who imports the vendor's package gets the emulated package, unless the real one is installed.

    Ported scripts import it first, before torch, and need not know of hpushim.
    """
    if not any(isinstance(finder, _Offer) for finder in sys.meta_path):
        sys.meta_path.append(_Offer())


class _Offer:
    """The last finder: gets what nobody else has."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in ("habana_frameworks", "habana_dataloader") or "hpushim" in sys.modules:
            return None
        from importlib.machinery import PathFinder

        import hpushim  # noqa: F401  it puts the emulated package on sys.path

        return PathFinder.find_spec(name)
