"""The pretend Gaudi machine, made once for each worker."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """The machine; skips where the device that stands for the card cannot be built."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.backends.cuda.is_built():
        pytest.skip("a CUDA build of torch cannot host an hpu device")
    if os.name != "posix":
        pytest.skip("the machine is made of links and shell scripts")
    from machine import Machine

    from hpushim.errors import EmulatorError

    try:
        return Machine(tmp_path_factory.mktemp("gaudi"))
    except EmulatorError as error:
        pytest.skip(f"no device to stand for the card: {error}")


@pytest.fixture
def script(machine, tmp_path: Path) -> Callable[..., Done]:  # type: ignore[no-untyped-def]
    """Runs Python code there, as a script in a folder of its own; keyword arguments are its environment."""

    def run(code: str, *words: str, check: bool = True, **changes: str) -> Done:
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(code))
        done: Done = machine.run(*(words or ("python",)), path, cwd=tmp_path, **changes)
        if check:
            assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-3000:]}"
        return done

    return run


@pytest.fixture
def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
