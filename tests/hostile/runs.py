"""Running hpushim on hostile input: never for long, and with everything around it watched."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Nothing here takes a second; whatever is still running after this waits for something.
SECONDS = 60.0


@dataclass(frozen=True)
class Done:
    """A run that ended: exit code (negative for a signal), what it printed."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


class Zygote:
    """Starts commands; one at a time asks, any number may run."""

    def __init__(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**env, "HPUSHIM": "off", "GIT_CONFIG_NOSYSTEM": "1"},
        )
        self._folder = tempfile.TemporaryDirectory(prefix="hostile")
        self._count = 0

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def start(self, *words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Running:
        self._count += 1
        base = f"{self._folder.name}/{self._count}"
        for name in ("out", "err"):  # there even if the child is killed before it comes to it
            Path(f"{base}.{name}").touch()
        asked = {
            "words": [os.fsencode(word).decode("utf-8", "surrogateescape") for word in words],
            "cwd": str(cwd),
            "out": f"{base}.out",
            "err": f"{base}.err",
            "env": env or {},
        }
        return Running(self, self._ask({"start": asked})["pid"], base)

    def wait(self, pid: int, seconds: float) -> int | None:
        status: int | None = self._ask({"wait": pid, "seconds": seconds})["status"]
        return status

    def run(self, *words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Done:
        return self.start(*words, cwd=cwd, env=env).end()

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(SECONDS)
        self._folder.cleanup()


class Running:
    """A command that was started."""

    def __init__(self, zygote: Zygote, pid: int, base: str) -> None:
        self.zygote, self.pid, self.base = zygote, pid, base
        self.code: int | None = None

    def signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def poll(self, seconds: float = 0.0) -> int | None:
        if self.code is None:
            self.code = self.zygote.wait(self.pid, seconds)
        return self.code

    def end(self) -> Done:
        """Waits for it; one that does not end is ended, and that is an error."""
        code = self.poll(SECONDS)
        if code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.poll(SECONDS)
        out, err = (
            Path(f"{self.base}.{name}").read_bytes().decode("utf-8", "surrogateescape")
            for name in ("out", "err")
        )
        assert code is not None, f"still running after {SECONDS:.0f} seconds: {out}{err}"
        return Done(code, out, err)


def state(folder: Path, leave_out: tuple[str, ...] = ()) -> dict[str, tuple[Any, ...]]:
    """Everything under a folder: kinds, modes, contents, targets of links; and times of files."""
    found: dict[str, tuple[Any, ...]] = {}
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in leave_out]
        for name in [*folders, *files]:
            path = Path(where, name)
            info = path.lstat()
            entry: tuple[Any, ...] = (stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode))
            if stat.S_ISLNK(info.st_mode):
                entry = (entry[0], str(path.readlink()))
            elif stat.S_ISREG(info.st_mode):
                data = b"" if info.st_size > 1 << 26 else path.read_bytes()
                entry += (info.st_size, data, info.st_mtime_ns)
            found[os.path.relpath(path, folder)] = entry
    return found
