"""An hpu device for machines without Gaudi: ``enable()`` makes torch take host memory for an emulated HPU."""

from __future__ import annotations


def enable(gaudi: str = "gaudi2", devices: int = 1) -> None:
    """Make ``hpu`` a device of this process and the vendor's look-alike importable; idempotent."""
    from hpushim.emulator import arming

    arming.enable(gaudi=gaudi, devices=devices)


def environment(gaudi: str = "gaudi2", stack: str | None = None) -> dict[str, str]:
    """The environment changes that make child processes emulate: variable to new value."""
    from hpushim.emulator import arming

    return arming.environment(gaudi=gaudi, stack=stack)
