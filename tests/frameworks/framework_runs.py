"""Runs a framework's program on the CPU or on the emulated HPU, in processes of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PROGRAMS = Path(__file__).parent / "programs"


class Run(NamedTuple):
    """A run that a test has looked at: by which Python, where (cpu, hpu, cuda), in which mode, in how many processes."""

    python: str
    where: str
    mode: str
    processes: int


RUNS: set[Run] = set()
"""What the test that runs now has run. ``conftest.py`` empties it and hands it to the table."""
APART: list[float] = []
"""How far apart that test has found numbers, relative to those of the CPU."""


def numbers_agree(
    found: Any, expected: Any, tolerance: float = 0.0, smallest: float = 1e-12
) -> None:
    """Asserts that nested lists of numbers are those of the CPU, and notes for the table how far apart they are.

    ``tolerance`` is relative; numbers that are apart by less than ``smallest`` agree as well.
    """
    ours, theirs = flat(found), flat(expected)
    if any(isinstance(one, str) for one in ours + theirs):
        assert ours == theirs
        return
    if len(ours) == len(theirs):
        APART.append(max((_apart(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0))
    assert ours == pytest.approx(theirs, rel=tolerance, abs=smallest)


def _apart(found: float, expected: float) -> float:
    return 0.0 if found == expected else abs(found - expected) / max(abs(expected), 1e-12)


def flat(value: Any) -> list[Any]:
    """The numbers and words of nested lists."""
    if not isinstance(value, list):
        return [value]
    return [one for part in value for one in flat(part)]


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
    """The first Python that has the packages, and why none can run them on the device (empty if one can): this one, or those that
    HPUSHIM_FRAMEWORKS_PYTHON names, as PATH names folders.
    """
    python, reason = python_that_has(*packages)
    return (python, _no_device(python)) if python else ("", reason)


@cache
def python_that_has(*packages: str) -> tuple[str, str]:
    """The first Python that has the packages, and why none has (empty if one has)."""
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
            return python, ""
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


def migrated(place: Path, source: Path, *options: str) -> Path:
    """A copy that ``migrate`` has rewritten."""
    copy = place / source.name
    if source.is_dir():
        shutil.copytree(source, copy)
    else:
        shutil.copy(source, copy)
    done = subprocess.run(
        [sys.executable, "-m", "hpushim", "migrate", str(copy), "--allow-dirty", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode in (0, 1), done.stderr
    return copy


def output(words: list[str], where: str, processes: int, more: dict[str, str] | None = None) -> str:
    """What a command prints, which must end well."""
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        env=environment(where, "eager", processes) | (more or {}),
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def told(text: str, word: str) -> list[dict[str, Any]]:
    """The objects that programs have printed after this word. A launcher that joins what several processes print may put
    two on one line.
    """
    starts = [found.end() for found in re.finditer(rf"{word} (?=\{{)", text)]
    return [json.JSONDecoder().raw_decode(text, start)[0] for start in starts]


def result(text: str) -> dict[str, Any]:
    """What the one process that speaks for the job has printed."""
    found = told(text, "RESULT")
    assert len(found) == 1, text[-2000:]
    return found[0]


def ranks(text: str) -> list[dict[str, Any]]:
    """What each rank has printed, in order."""
    return sorted(told(text, "RANK"), key=lambda one: int(one["rank"]))


def train(
    packages: tuple[str, ...],
    program: str,
    where: str,
    mode: str = "",
    processes: int = 1,
    *arguments: str,
    hosts: int = 1,
) -> dict[str, Any]:
    """What the program printed. AssertionError with its output when it failed.

    ``where`` is ``cpu``, ``hpu`` (the emulated device, as a program for Gaudi finds it) or ``cuda`` (under the shim).
    ``hosts`` are agents of torchrun on this machine; ``processes`` is how many there are in all.
    """
    python, reason = python_with(*packages)
    assert not reason, reason
    RUNS.add(Run(python, where, mode, processes))
    return _train(python, program, where, mode, processes, hosts, arguments)


@cache
def _train(
    python: str,
    program: str,
    where: str,
    mode: str,
    processes: int,
    hosts: int,
    arguments: tuple[str, ...],
) -> dict[str, Any]:
    launcher = _launcher(program, where, processes, hosts)
    started = [
        subprocess.Popen(
            [python, *launcher, str(PROGRAMS / program), where, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(where, mode, processes // hosts),
        )
        for _ in range(hosts)
    ]
    try:
        outputs = [agent.communicate(timeout=900) for agent in started]
    finally:
        for agent in started:
            agent.kill()
    codes = [agent.returncode for agent in started]
    assert not any(codes), f"exit codes {codes}:\n" + "\n".join(err[-3000:] for _, err in outputs)
    return result("".join(out for out, _ in outputs))


def _launcher(program: str, where: str, processes: int, hosts: int) -> list[str]:
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
    words += ["-m", "torch.distributed.run", "--nproc_per_node", str(processes // hosts)]
    if hosts > 1:
        words += ["--nnodes", str(hosts), "--rdzv-backend", "c10d", "--rdzv-id", "job"]
        return [*words, "--rdzv-endpoint", f"127.0.0.1:{port}"]
    return [*words, "--master_port", port]
