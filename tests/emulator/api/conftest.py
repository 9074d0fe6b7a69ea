"""The emulated HPU in the test process, with the environment left as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def hpu() -> Iterator[object]:
    """torch with the emulated device; skips where the device cannot be built."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from hpushim.emulator import enable
    from hpushim.errors import EmulatorError

    before = dict(os.environ)
    try:
        enable(os.environ.get("HPUSHIM_GAUDI", "gaudi2"))
    except EmulatorError as error:
        pytest.skip(f"no emulated HPU: {error}")
    finally:
        # Other tests start processes that must not inherit the emulation.
        os.environ.clear()
        os.environ.update(before)
    yield torch.hpu
