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


_CHECK = """
import sys
from importlib.metadata import PackageNotFoundError, version
from packaging.requirements import Requirement
for text in sys.argv[1:]:
    wanted = Requirement(text)
    try:
        if not wanted.specifier.contains(version(wanted.name), prereleases=True):
            print(text)
    except PackageNotFoundError:
        print(text)
"""


@cache
def python_with(*packages: str) -> tuple[str, str]:
    """The first Python that has the packages, and why none has (empty if one has): this one, or those that
    HPUSHIM_FRAMEWORKS_PYTHON names, as PATH names folders.
    """
    reason = ""
    for python in os.environ.get("HPUSHIM_FRAMEWORKS_PYTHON", sys.executable).split(os.pathsep):
        done = subprocess.run(
            [python, "-c", _CHECK, *packages], capture_output=True, text=True, check=False
        )
        if done.returncode:
            reason = f"{python} does not run: {done.stderr.strip()[-200:]}"
        elif done.stdout.split():
            absent = ", ".join(done.stdout.split())
            reason = f"not installed: {absent} (or name a Python that has it in HPUSHIM_FRAMEWORKS_PYTHON)"
        else:
            return python, _no_device(python)
    return "", reason


@cache
def _no_device(python: str) -> str:
    """Why the emulated HPU cannot be built for a Python; empty if it can."""
    done = subprocess.run(
        [python, "-c", "from hpushim.emulator import build; build.build()"],
        capture_output=True,
        text=True,
        check=False,
        env=environment("cpu", ""),
    )
    return done.stderr.strip()[-300:] if done.returncode else ""


def environment(where: str, mode: str, processes: int = 1) -> dict[str, str]:
    """The environment of a run on the CPU, on the emulated device (hpu) or under the shim (cuda)."""
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
        from hpushim import emulator

        quiet |= emulator.environment()
    if where != "cpu":
        quiet |= {
            "HPUSHIM_DEVICES": str(processes),
            "PT_HPU_LAZY_MODE": "1" if mode == "lazy" else "0",
        }
    if where == "cuda":
        quiet.pop("HPUSHIM")
    return quiet


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def train(
    packages: tuple[str, ...],
    program: str,
    where: str,
    mode: str = "",
    processes: int = 1,
    *arguments: str,
) -> dict[str, Any]:
    """What the program printed. AssertionError with its output when it failed.

    ``where`` is ``cpu``, ``hpu`` (the emulated device, as a program for Gaudi finds it) or ``cuda`` (under the shim).
    """
    python, reason = python_with(*packages)
    assert not reason, reason
    done = subprocess.run(
        [python, *_launcher(program, where, processes), str(PROGRAMS / program), where, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(where, mode, processes),
        timeout=900,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stderr[-3000:]}"
    assert len(lines) == 1, done.stdout[-2000:]
    result: dict[str, Any] = json.loads(lines[0].removeprefix("RESULT "))
    return result


def _launcher(program: str, where: str, processes: int) -> list[str]:
    """What stands between ``python`` and the program."""
    words = ["-m", "hpushim", "run"] if where == "cuda" else []
    if processes == 1 or program.startswith("lightning"):
        return words  # Lightning starts its processes itself
    port = str(free_port())
    if program.startswith("accelerate") and where != "cpu":
        words += ["-m", "accelerate.commands.launch", "--num_processes", str(processes)]
        words += ["--mixed_precision", "no", "--dynamo_backend", "no", "--num_machines", "1"]
        words += ["--multi_gpu"] if where == "cuda" else []
        return [*words, "--main_process_port", port]
    words += ["-m", "torch.distributed.run", "--nproc_per_node", str(processes)]
    return [*words, "--master_port", port]
