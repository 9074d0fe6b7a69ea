"""A process in which hpushim is loaded, and which forks for each command: a run costs what the command itself costs.

Runs as a program of its own, because a test runner has threads and must not fork. One JSON object a line comes in and goes out:
``{"start": {"words", "cwd", "out", "err", "env"}}`` gives ``{"pid"}``, ``{"wait": pid, "seconds"}`` gives ``{"status"}``, null while it runs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any


def _child(words: list[str], cwd: str, out: str, err: str, env: dict[str, str]) -> None:
    os.setsid()  # so that a whole run can be ended, with what it started
    os.chdir(cwd)
    os.environ.update(env)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, name in ((0, os.devnull), (1, out), (2, err)):
        descriptor = os.open(name, flags if number else os.O_RDONLY)
        os.dup2(descriptor, number)
    encoding, _, errors = env.get("PYTHONIOENCODING", "utf-8:strict").partition(":")
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, "w" if number else "r", encoding=encoding, errors=errors)
        for number in range(3)
    )
    from hpushim.cli import main

    code = 99
    try:
        code = main([os.fsdecode(word.encode("utf-8", "surrogateescape")) for word in words])
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                pass
        os._exit(code)


def _wait(pid: int, seconds: float) -> int | None:
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.001)


#: One of each parser.
_FILES = {
    "a.py": "import torch\nx = torch.zeros(2).cuda()\n",
    "a.ipynb": '{"cells": [{"cell_type": "code", "source": ["x.cuda()"], "metadata": {}}], "nbformat": 4}',
    "a.sh": "CUDA_VISIBLE_DEVICES=0 python a.py\n",
    "a.yaml": "device: cuda\n",
    "a.toml": 'device = "cuda"\n',
    "Dockerfile": "FROM nvidia/cuda:12\n",
    "requirements.txt": "torch==2.1.0+cu118\n",
}


def _warm() -> None:
    """Loads what commands load, by giving one something to do."""
    import contextlib
    import gc
    import tempfile
    from pathlib import Path

    from hpushim.cli import main
    from hpushim.report import FORMATS

    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        for name, text in _FILES.items():
            Path(folder, name).write_text(text)
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            for form in FORMATS:
                main(["check", "--format", form, folder])
            main(["report", folder])
            main(["migrate", "--diff", folder])
            main(["api", "torch.cuda.synchronize"])
            main(["matrix", "show"])
    gc.collect()
    gc.freeze()  # else each child's collector writes into all pages, which copies them


def main() -> None:
    _warm()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        if "start" in asked:
            pid = os.fork()
            if not pid:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                _child(**asked["start"])
            answer: dict[str, Any] = {"pid": pid}
        else:
            answer = {"status": _wait(asked["wait"], asked["seconds"])}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
