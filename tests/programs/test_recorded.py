"""Small programs print under the shim and migrated what they printed on a CUDA device.

``recorded.txt`` holds them in the form of ``device_programs.txt``. Each printed its lines on an NVIDIA H200 (torch 2.11.0, CUDA 13.0).
``~~ why`` says that on Gaudi a line is different or the program stops, which hpushim reports: while it runs or as a finding; ``~~ silently:``
that it does not. ``!! codes`` says that ``migrate`` leaves a place and reports it with one of these codes, so that the migrated program
prints something else.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import warm
import ways

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Recorded:
    name: str
    code: str
    prints: list[str]
    differs: str
    reported: tuple[str, ...]


def _read(text: str) -> Recorded:
    name, _, rest = text.partition("\n")
    lines = rest.strip("\n").split("\n")
    prints = [line[3:] for line in lines if line.startswith(">>")]
    differs = next((line[3:] for line in lines if line.startswith("~~ ")), "")
    reported = next((line[3:] for line in lines if line.startswith("!! ")), "")
    code = "\n".join(line for line in lines if not line.startswith((">>", "~~ ", "!! ")))
    return Recorded(name, f"{code}\n", prints, differs, tuple(re.findall(r"HPU\d+", reported)))


PROGRAMS = [
    _read(text) for text in re.split(r"(?m)^== ", Path(__file__).with_name("recorded.txt").read_text())[1:]
]  # fmt: skip


def test_there_are_enough() -> None:
    assert len({one.name for one in PROGRAMS}) == len(PROGRAMS) >= 120
    assert sum(bool(one.differs) for one in PROGRAMS) <= 10
    assert sum(bool(one.reported) for one in PROGRAMS) <= 20
    assert sum(one.differs.startswith("silently") for one in PROGRAMS) <= 2


def _run(code: str, folder: Path, *how: str) -> tuple[list[str], str]:
    """The lines that a program prints, CUDA spelled as there, and what it says beside them; the exit code behind the lines if it is not 0."""
    ways.lay_out(folder, {"main.py": code})
    env = {**os.environ, "HPUSHIM": "emulate", "PYTHONPATH": str(ways.HERE.parents[1])}
    words = [sys.executable, "-m", "hpushim", "run", *how, "main.py"]
    done = warm.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)  # fmt: skip
    code = [f"exit code {done.returncode}"] if done.returncode else []
    return [re.sub("hpu", "cuda", line) for line in done.stdout.splitlines()] + code, done.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_under_the_shim_it_prints_what_it_printed_on_cuda(program: Recorded, tmp_path: Path) -> None:  # fmt: skip
    printed, said = _run(program.code, tmp_path)
    assert (printed == program.prints) is not bool(program.differs), said[-2000:]
    assert not program.differs or program.differs.startswith("silently: ") or "HPU" in said


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_migrated_it_prints_so_or_the_place_is_reported(program: Recorded, tmp_path: Path) -> None:
    migrated = ways.migrated({"main.py": program.code})
    if program.reported:
        assert set(program.reported) <= {one.code for one in migrated.findings["main.py"]}
    elif not program.differs:
        printed, said = _run(migrated.files["main.py"], tmp_path, "--native")
        assert printed == program.prints, said[-2000:]
