"""An hpu device for machines without Gaudi: ``enable()`` makes torch take host memory for an emulated HPU."""

from __future__ import annotations

import sys
from pathlib import Path

SITE = Path(__file__).parent / "site"  # holds the emulated package, importable only from here


def offer_look_alike() -> None:
    """Make the emulated package importable, after everything else on ``sys.path``; the device comes with torch.

    For ported scripts, which import it before torch. Loads nothing.
    """
    if str(SITE) not in sys.path:
        sys.path.append(str(SITE))


def enable(gaudi: str = "gaudi2", devices: int = 1) -> None:
    """Make ``hpu`` a device of this process and the vendor's emulated package importable; idempotent."""
    from hpushim.emulator import enabling

    enabling.enable(gaudi=gaudi, devices=devices)


def environment(gaudi: str = "gaudi2", stack: str | None = None) -> dict[str, str]:
    """The environment changes that make child processes emulate: variable to new value."""
    from hpushim.emulator import enabling

    return enabling.environment(gaudi=gaudi, stack=stack)
