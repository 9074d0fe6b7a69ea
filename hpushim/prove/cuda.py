"""The CUDA device of this machine, where the copies of the styles that keep CUDA run as well."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import msgspec

#: The Python whose torch has CUDA, where it is not the one that emulates: a build of torch for CUDA cannot host the emulated HPU.
PYTHON = "HPUSHIM_PROVE_CUDA_PYTHON"
_SECONDS = 120
_ASK = (
    "import torch\n"
    "there = torch.version.cuda is not None and torch.cuda.is_available()\n"
    "print('\\n' + (torch.cuda.get_device_name(0) if there else ''))\n"
    "print(torch.__version__)\n"
)


class Found(msgspec.Struct, frozen=True):
    """``name`` is that of the device; where there is none, ``why`` says so."""

    python: str
    name: str = ""
    why: str = ""


Look = Callable[[], Found]


def look() -> Found:
    """The first CUDA device that a Python sees. It runs in a process of its own: this one never loads torch."""
    python = os.environ.get(PYTHON) or sys.executable
    try:
        done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment())  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return Found(python, why=f"{python} does not answer: {error.__class__.__name__}")
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) < 2:
        return Found(python, why=f"{python} has no torch")
    name, version = lines[-2:]
    return (
        Found(python, name) if name else Found(python, why=f"torch {version} sees no CUDA device")
    )


def environment() -> dict[str, str]:
    """The variables of a run on the first CUDA device, without the shim."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HPUSHIM")}
    first = env.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    # Without a workspace of its own cuBLAS adds up in another order each time.
    return {**env, "HPUSHIM": "off", "CUDA_VISIBLE_DEVICES": first, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # fmt: skip
