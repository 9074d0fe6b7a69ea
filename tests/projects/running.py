"""Runs a training script three ways and reads the books: plain, under the shim, natively on the emulated HPU."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Way = Literal["plain", "shim", "native"]

NUMBER = r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?"
LIMIT = 580


@dataclass
class Run:
    """One finished command: exit status, seconds, everything that it printed, the ledgers of its processes."""

    command: str
    rc: int
    seconds: float
    output: str
    ledgers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True when the command exited with 0."""
        return self.rc == 0

    def tail(self, lines: int = 12) -> str:
        """The last lines that it printed."""
        return "\n".join(self.output.rstrip().splitlines()[-lines:])

    def total(self, name: str) -> int:
        """A total of the ledgers, summed over the processes."""
        return sum(int(ledger.get(name, 0)) for ledger in self.ledgers)

    def share(self) -> float:
        """The share of compute operators that ran on the hpu device, 0 when none was seen anywhere."""
        counts = [ledger.get("compute_operators", {}) for ledger in self.ledgers]
        hpu, cpu = (sum(count.get(device) or 0 for count in counts) for device in ("hpu", "cpu"))
        return hpu / (hpu + cpu) if hpu + cpu else 0.0

    def parameters(self) -> set[str]:
        """The devices of the parameters at the first optimizer steps."""
        return {device for ledger in self.ledgers for device in ledger.get("parameters", ())}

    def unhandled(self) -> list[str]:
        """CUDA calls that met no patch, with their places."""
        return [
            f"{call.get('name')} at {Path(str(call.get('file'))).name}:{call.get('line')}"
            for ledger in self.ledgers
            for call in ledger.get("unhandled_cuda", ())
        ]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every training: this one, without hpushim's variables, one thread, no bytecode left behind."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    env.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0")
    env["TOKENIZERS_PARALLELISM"] = "false"
    for name in (
        "PYTEST_CURRENT_TEST",
        "CUDA_VISIBLE_DEVICES",
    ):  # hidden cards are no cards, also to the shim
        env.pop(name, None)
    paths = [(extra or {}).get("PYTHONPATH"), env.get("PYTHONPATH")]
    env.update(extra or {})
    if any(paths):
        env["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return env


def prefix(way: Way, python: str = sys.executable, mode: str = "lazy") -> list[str]:
    """The words that stand before ``script.py args…`` to run it in this way."""
    # Lazy mode is the one in which mark_step means something, and it is counted there only.
    words: dict[Way, list[str]] = {
        "plain": [],
        "shim": ["-m", "hpushim", "run"],
        "native": ["-m", "hpushim", "run", "--native", "--mode", mode],
    }
    return [python, *words[way]]


def variables(way: Way, books: Path | None = None) -> dict[str, str]:
    """The environment that goes with this way: always the emulator, where the ledger goes.

    The emulated device draws from the CPU's own random stream, so that a run equals the CPU's number by number.
    """
    if way == "plain":
        return {}
    env = {"HPUSHIM": "emulate", "HPUSHIM_EMULATED_RANDOM": "cpu"}
    if books is not None:
        env["HPUSHIM_LEDGER"] = str(books)
    return env


def run(
    way: Way,
    words: Sequence[str],
    cwd: Path,
    books: Path | None = None,
    env: Mapping[str, str] | None = None,
    python: str = sys.executable,
    limit: int = LIMIT,
    mode: str = "lazy",
) -> Run:
    """Runs ``python script.py args…`` in this way, in ``cwd``, ``limit`` seconds at most; the ledger goes to ``books``."""
    if books is not None:
        forget(books)
    both = {**variables(way, books), **(env or {})}
    return execute([*prefix(way, python, mode), *words], cwd, books, both, limit)


def execute(
    command: Sequence[str] | str,
    cwd: Path,
    books: Path | None = None,
    env: Mapping[str, str] | None = None,
    limit: int = LIMIT,
) -> Run:
    """Runs a command (a string goes through bash) and reads the ledgers that it left at ``books``."""
    shown = command if isinstance(command, str) else shlex.join(command)
    words = ["bash", "-c", command] if isinstance(command, str) else list(command)
    begin = time.monotonic()
    with subprocess.Popen(
        words,
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            output += f"\nstopped after {limit} s".encode()
    seconds = time.monotonic() - begin
    text = output.decode(errors="replace")
    return Run(shown, process.returncode, seconds, text, read_books(books))


def read_books(books: Path | None) -> list[dict[str, Any]]:
    """The ledgers at this path and beside it (``path.rank1``, ``path.pid123`` …), one for each process."""
    if books is None:
        return []
    return [json.loads(path.read_text()) for path in _books(books)]


def forget(books: Path) -> None:
    """Removes the ledgers of an earlier run."""
    for path in _books(books):
        path.unlink()


def _books(books: Path) -> list[Path]:
    return sorted(path for path in books.parent.glob(f"{books.name}*") if path.is_file())


def hpushim(
    *words: str, cwd: Path, python: str = sys.executable, env: Mapping[str, str] | None = None
) -> Run:
    """Runs one command of hpushim."""
    return execute([python, "-m", "hpushim", *words], cwd, env=env)


def relative(a: float, b: float) -> float:
    """|a - b| as a share of the larger of the two; 0 when equal, also when both are 0."""
    return 0.0 if a == b else abs(a - b) / max(abs(a), abs(b))


def last_number(pattern: str, text: str) -> float | None:
    """The number in the pattern's last match; ``<n>`` in the pattern stands for a number."""
    found = re.findall(pattern.replace("<n>", f"({NUMBER})"), text)
    return float(found[-1]) if found else None


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and modification time (ns) of every file below, without ``.git`` and hpushim's own journal."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if name.parts[0] in (".git", ".hpushim") or "__pycache__" in name.parts:
            continue
        if path.is_file() and not path.is_symlink():
            found[str(name)] = (path.read_bytes(), path.stat().st_mtime_ns)
    return found


def git_init(root: Path) -> None:
    """Makes the folder a repository of its own, everything committed."""
    git = ["git", "-c", "user.name=demo", "-c", "user.email=demo@example.invalid"]
    for words in (
        ["init", "-q"],
        ["add", "-A", "-f"],
        ["commit", "-q", "--no-verify", "-m", "as it was"],
    ):
        subprocess.run([*git, *words], cwd=root, check=True, stdin=subprocess.DEVNULL)


def git_diff(root: Path) -> str:
    """The size of the changes since git_init, as git says it."""
    words = ["git", "diff", "--shortstat"]
    return subprocess.run(
        words, cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def fresh_copy(source: Path, target: Path, leave_out: Iterable[str] = ()) -> Path:
    """A copy of a folder at ``target``; what stood there goes. Modification times are kept."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(
        source,
        target,
        symlinks=True,
        ignore=shutil.ignore_patterns("__pycache__", *leave_out),
    )
    return target
