"""What ran on the emulated device: counters, sites, and the JSON that HPUSHIM_LEDGER asks for."""

from __future__ import annotations

from typing import Any

from hpushim.emulator import device


def mark_step(sync: bool = False) -> None:
    """Close the pending graph, as ``htcore.mark_step()`` does in lazy mode; counted."""
    device.load().mark_step(bool(sync))


def add(counter: str, amount: int = 1) -> None:
    """Add to a named total (``host_syncs``, ``cpu_fallbacks``, ``demotions`` …)."""
    device.load().add(counter, int(amount))


def snapshot() -> dict[str, Any]:
    """The ledger as of now, in the contract's names; always says ``"emulated": True``."""
    raise NotImplementedError


def start() -> None:
    """Open the books of this process; with HPUSHIM_LEDGER set they are written there at exit."""


def reset() -> None:
    """Start the books anew; the device is untouched."""
    device.load().reset_ledger()


unhandled_cuda: list[dict[str, Any]] = []
"""CUDA calls that met no patch: the shim appends {"name", "file", "line"}."""
