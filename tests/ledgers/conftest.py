"""Programs run by ``hpushim run``, each once for all tests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Ran:
    """A finished run: what it said, its books and the file that holds them."""

    stdout: str
    stderr: str
    status: int
    file: Path
    books: dict[str, Any]

    @property
    def by_shape(self) -> int:
        """Recompilations that are not by a number alone."""
        return int(self.books["recompilations"] - self.books["recompilations_by_number"])

    @property
    def story(self) -> list[str]:
        """The last lines, without what the shim says at the start."""
        heads = (
            "what ran where",
            "it is unknown",
            "on a Gaudi",
            "where to look",
            "NOTHING",
            "why",
            "what to do",
            "nothing ran",
        )
        lines = [line.removeprefix("hpushim: ") for line in self.stderr.splitlines()]
        return [line for line in lines if line.startswith(heads)]


def environment(**changes: str) -> dict[str, str]:
    """This environment without hpushim's variables and a launcher's; ``changes`` on top."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if "CACHE" in name or not name.startswith(("HPUSHIM", "PT_HPU", "RANK", "CUDA"))
    }
    return {**kept, "OMP_NUM_THREADS": "1", **changes}


def run_program(folder: Path, *words: str, **changes: str) -> Ran:
    """``hpushim run`` with these words, in ``folder``, with a ledger there."""
    file = folder / "ledger.json"
    done = warm.run(
        [sys.executable, "-m", "hpushim", "run", "--ledger", str(file), *words],
        cwd=folder,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if "building the emulated HPU needs" in done.stderr or "no C++ compiler" in done.stderr:
        pytest.skip(f"no emulated HPU: {done.stderr[-300:]}")
    books = json.loads(file.read_text()) if file.is_file() else {}
    return Ran(done.stdout, done.stderr, done.returncode, file, books)


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ran]:
    """A program of this folder, by its file's name, with hpushim's options before it and its own after ``--``."""
    pytest.importorskip("torch", reason="torch is not installed")
    done: dict[tuple[str, ...], Ran] = {}

    def once(program: str, *words: str, mode: str = "eager") -> Ran:
        key = (program, mode, *words)
        if key not in done:
            folder = tmp_path_factory.mktemp(program)
            done[key] = run_program(folder, "--mode", mode, str(PROGRAMS / f"{program}.py"), *words)
            assert done[key].status == 0, done[key].stderr[-3000:]
        return done[key]

    return once


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Ran]:
    """Runs words with ``hpushim run`` in a folder of the test's; keyword arguments are environment."""
    pytest.importorskip("torch", reason="torch is not installed")
    return lambda *words, **changes: run_program(tmp_path, *words, **changes)
