"""A program run three ways: plain CPU, the original under the shim, its migrated copy on the emulated HPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpushim.engine import project
from hpushim.model import Finding, Target

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Ran:
    """One run: exit status (None: stopped), what it printed, the emulator's books."""

    status: int | None
    output: str
    books: dict[str, Any]

    def lines(self, first: str) -> list[str]:
        """The lines that begin with a word, without it."""
        head = first + " "
        return [line[len(head) :] for line in self.output.splitlines() if line.startswith(head)]


@dataclass(frozen=True)
class Migrated:
    """A project's files after ``migrate``, and the findings by file."""

    files: dict[str, str]
    findings: dict[str, tuple[Finding, ...]]
    failed: tuple[str, ...]


def migrated(files: Mapping[str, str]) -> Migrated:
    """What ``hpushim migrate`` makes of these files (name to text); nothing is written where it counts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        lay_out(folder, files)
        report = project.migrate([folder], Target(), write=False, jobs=1)
    after, findings, failed = dict(files), {}, []
    for result in report.files:
        findings[result.path] = result.findings
        if result.after is not None:
            after[result.path] = result.after.decode()
        if result.status == "failed":
            failed.append(f"{result.path}: {result.reason}")
    return Migrated(after, findings, tuple(failed))


def lay_out(folder: Path, files: Mapping[str, str]) -> None:
    """Writes the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


class Servers:
    """The processes that run programs; a context."""

    def __enter__(self) -> Servers:
        env = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
        env.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0")
        # The emulated device draws from the CPU's stream, so that numbers can be compared.
        env["HPUSHIM_EMULATED_RANDOM"] = "cpu"
        env["HPUSHIM_LOG"] = "quiet"
        env["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), env.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "servers.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def run(
        self,
        way: str,
        folder: Path,
        words: Sequence[str],
        env: Mapping[str, str],
        seconds: float = 90,
    ) -> Ran:
        """Runs ``words`` (a script and its arguments) in a folder, one of ``plain``, ``shim``, ``native``."""
        assert self._process.stdin is not None and self._process.stdout is not None
        job: dict[str, Any] = {
            "way": way,
            "cwd": str(folder),
            "words": list(words),
            "env": dict(env),
        }
        job["seconds"] = seconds
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return Ran(**json.loads(self._process.stdout.readline()))
