"""Processes that hold torch and fork for each program: plain CPU, under the shim, native on the emulated HPU.

Runs as a program of its own: it imports torch, forks one server for each way of running, and each of these forks a child
for each program. One JSON object a line: ``{"way", "cwd", "words", "env", "seconds"}`` gives ``{"status", "output", "books"}``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import Any

WAYS = ("plain", "shim", "native")


#: What programs have torch import, sooner or later; loaded once and not in each child.
_LATE = (
    *("torch._dynamo", "torch.utils.data", "torch.utils.checkpoint", "torch.distributed"),
    *("torch.nn.parallel", "torch.multiprocessing", "torch.profiler", "torch.cuda.amp"),
    *("torch.distributed.nn", "torch._inductor", "torch.testing"),
)


def _begin(way: str) -> None:
    """Makes this process what ``hpushim run`` is when the program's first line is reached; nothing for ``plain``."""
    if way == "plain":
        return
    from hpushim.shim.run import launch

    os.environ["HPUSHIM"] = "emulate"
    launch.prepare(mode="lazy")
    if way == "native":
        launch._without_shim()
        os.environ["HPUSHIM"] = "emulate"
    else:
        launch._start_shim()


def _child(way: str, words: list[str]) -> None:
    sys.argv = list(words)
    if way == "plain":
        sys.path.insert(0, str(Path(words[0]).parent.resolve()))
        runpy.run_path(words[0], run_name="__main__")
        return
    from hpushim.shim.run import launch

    launch.run(words[0], words[1:], mode="lazy", native=way == "native")


def _books(way: str) -> dict[str, Any]:
    if way == "plain":
        return {}
    from hpushim.emulator import ledger

    return ledger.snapshot()


def _run_child(way: str, cwd: str, words: list[str]) -> None:
    os.setsid()
    os.chdir(cwd)
    out = os.open(f"{way}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = 1
    try:
        _child(way, words)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        Path(f"{way}.books").write_text(json.dumps(_books(way)))
        os._exit(code)


def _wait(pid: int, seconds: float) -> int | None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _serve(way: str, asked_of: int, answers_to: int) -> None:
    _begin(way)
    for name in _LATE:
        importlib.import_module(name)
    gc.freeze()
    with os.fdopen(asked_of) as asked, os.fdopen(answers_to, "w") as answers:
        for line in asked:
            job = json.loads(line)
            pid = os.fork()
            if not pid:
                os.environ.update(job["env"])
                _run_child(way, job["cwd"], job["words"])
            status = _wait(pid, job["seconds"])
            folder = Path(job["cwd"])
            books = folder / f"{way}.books"
            answer = {
                "status": status,
                "output": (folder / f"{way}.out").read_text(errors="replace"),
                "books": json.loads(books.read_text()) if books.is_file() else {},
            }
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def main() -> None:
    """Serves until its input ends."""
    import numpy  # noqa: F401
    import torch
    import yaml  # noqa: F401

    torch.set_num_threads(1)
    answers_out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ends: dict[str, tuple[Any, Any]] = {}
    for way in WAYS:
        ours, theirs = os.pipe(), os.pipe()
        if not os.fork():
            os.close(ours[1])
            for writer, _ in ends.values():
                writer.close()
            _serve(way, ours[0], theirs[1])
            os._exit(0)
        os.close(ours[0])
        os.close(theirs[1])
        ends[way] = os.fdopen(ours[1], "w"), os.fdopen(theirs[0])
    for line in sys.stdin:
        writer, reader = ends[json.loads(line)["way"]]
        writer.write(line)
        writer.flush()
        answers_out.write(
            reader.readline() or '{"status": null, "output": "the server ended", "books": {}}\n'
        )
        answers_out.flush()


if __name__ == "__main__":
    main()
