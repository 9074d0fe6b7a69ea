"""Runs of a proof as forks of one process that holds torch: what a run costs is its script, not torch's import.

For trials that make hundreds of runs. Launchers, which start processes of their own, run as ever.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from typing import Any

from hpushim.prove import runs

_real = subprocess.Popen


class _Fork:
    """What :mod:`hpushim.prove.runs` asks of a process."""

    def __init__(self, words: list[str], **how: Any) -> None:
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _become(words, **how)

    def poll(self) -> int | None:
        if self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = time.monotonic() + (timeout or 0)
        while self.poll() is None:
            if timeout is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("fork", timeout)
            time.sleep(0.02)
        assert self.returncode is not None
        return self.returncode


def _become(words: list[str], *, cwd: Any, env: dict[str, str], stdout: Any, stderr: Any, **_: Any) -> None:  # fmt: skip
    """In the child: the run itself; never returns."""
    code = 1
    try:
        os.setsid()
        os.dup2(stdout.fileno(), 1)
        os.dup2(stderr.fileno(), 2)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.path[:0] = [p for p in env["PYTHONPATH"].split(os.pathsep) if p]
        sys.argv = [words[0], *words[3:]]
        from hpushim.cli import main
        from hpushim.prove.recorder import enable

        enable.begin()
        code = main(words[3:])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _start(words: list[str], **how: Any) -> Any:
    if words[1:4] == ["-m", "hpushim", "run"] and not any("torchrun" in word for word in words):
        return _Fork(words, **how)
    return _real(words, **how)


def fork_runs() -> None:
    """From now on, runs on hpu in this process are forks of it. ``HPUSHIM`` is off in it, and torch is imported."""
    import torch  # noqa: F401

    from hpushim.matrix import load

    load()
    runs.subprocess.Popen = _start  # type: ignore[misc, assignment]
