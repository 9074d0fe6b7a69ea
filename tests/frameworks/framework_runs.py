"""Runs a framework's program on the CPU or on the emulated HPU, in processes of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"


@cache
def interpreter() -> str:
    """The Python that has the frameworks: this one, or HPUSHIM_FRAMEWORKS_PYTHON."""
    return os.environ.get("HPUSHIM_FRAMEWORKS_PYTHON", sys.executable)


@cache
def missing(*modules: str) -> str:
    """Why the frameworks cannot be run here; empty if they can."""
    check = (
        "import importlib.util as u, sys; print(*[m for m in sys.argv[1:] if not u.find_spec(m)])"
    )
    done = subprocess.run(
        [interpreter(), "-c", check, *modules], capture_output=True, text=True, check=False
    )
    absent = done.stdout.split()
    if done.returncode:
        return f"{interpreter()} does not run: {done.stderr.strip()[-200:]}"
    if absent:
        return f"not installed: {', '.join(absent)} (or name a Python that has it in HPUSHIM_FRAMEWORKS_PYTHON)"
    return ""


@cache
def no_device() -> str:
    """Why the emulated HPU cannot be built here; empty if it can."""
    done = subprocess.run(
        [interpreter(), "-c", "from hpushim.emulator import build; build.build()"],
        capture_output=True,
        text=True,
        check=False,
        env=_environment("cpu", ""),
    )
    return done.stderr.strip()[-300:] if done.returncode else ""


def _environment(where: str, mode: str) -> dict[str, str]:
    quiet = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HPUSHIM_", "PT_HPU_", "HABANA_", "HLS_")) and name != "RANK"
    }
    quiet |= {"OMP_NUM_THREADS": "1", "HPUSHIM": "off", "HF_HUB_OFFLINE": "1"}
    for kept in ("HPUSHIM_CACHE_DIR",):
        if kept in os.environ:
            quiet[kept] = os.environ[kept]
    if where == "hpu":
        from hpushim.emulator import environment

        quiet |= environment()
        quiet |= {"HPUSHIM_DEVICES": "2", "PT_HPU_LAZY_MODE": "1" if mode == "lazy" else "0"}
    return quiet


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def train(program: str, where: str, mode: str, processes: int, *arguments: str) -> dict[str, Any]:
    """What the program printed. AssertionError with its output when it failed."""
    command = [interpreter()]
    if processes > 1:
        launcher = ["-m", "torch.distributed.run", "--nproc_per_node", str(processes)]
        if program.startswith("accelerate") and where == "hpu":
            plain = ["--mixed_precision", "no", "--dynamo_backend", "no", "--num_machines", "1"]
            launcher = [
                "-m",
                "accelerate.commands.launch",
                "--num_processes",
                str(processes),
                *plain,
            ]
            launcher += ["--main_process_port", str(_free_port())]
        else:
            launcher += ["--master_port", str(_free_port())]
        command += launcher
    command += [str(PROGRAMS / program), where, *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(where, mode),
        timeout=900,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stderr[-3000:]}"
    assert len(lines) == 1, done.stdout[-2000:]
    result: dict[str, Any] = json.loads(lines[0].removeprefix("RESULT "))
    return result
