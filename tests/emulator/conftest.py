"""The emulated HPU in the test process, and clean children."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest
import warm
from environments import plain_environment


@pytest.fixture(scope="session", autouse=True)
def hpu() -> Iterator[object]:
    """torch.hpu, emulated; skips where the device cannot be built."""
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


def _runner(
    start: Callable[..., subprocess.CompletedProcess[str]],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run_code(code: str, *, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        result = start(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            timeout=300,
            env=plain_environment(**env),
            check=False,
        )
        if check:
            said = f"status {result.returncode}: {result.stderr[-3000:]}"
            assert result.returncode == 0, said
        return result

    return run_code


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code in a child; keyword arguments are its environment."""
    return _runner(warm.run)


@pytest.fixture
def start() -> Callable[..., subprocess.CompletedProcess[str]]:
    """As ``run``, in a process that starts and ends as any other: for tests of just that."""
    return _runner(subprocess.run)
