"""Runs the idioms of one process and prints, as JSON, what became of each: ``ok`` or what was raised, and the codes that were said.

With a way and a seed (see ``tests/cuda_machine/recording.py``) also what their names hold, a line for each as soon as it has run; with
the way ``cuda`` without the shim, with ``auto`` as ``import hpushim`` decides.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

LIMIT = 45  # seconds for one idiom, where its answers are recorded


def _too_long(*_: object) -> None:
    raise TimeoutError(f"the idiom is still running after {LIMIT} s")


def main(process: str, way: str = "shim", seed: str = "") -> None:
    """Prints ``{"results": {key: [outcome, codes, answers]}, "status": …}`` on the last line."""
    sys.path.insert(0, str(Path(__file__).parent))
    import idiom_files

    chosen = [one for one in idiom_files.idioms() if one.process == process]
    early: dict[str, dict[str, Any]] = {}
    os.environ["HPUSHIM"] = "off"  # torch first, without the shim
    for one in chosen:
        if one.early:
            early[one.key] = module = _module(one.name)
            exec(one.early, module)
    import hpushim

    if seed:
        signal.signal(signal.SIGALRM, _too_long)
    if way == "shim":
        os.environ["HPUSHIM"] = "emulate"
        hpushim.activate()
    elif way == "auto":
        del os.environ["HPUSHIM"]
        hpushim.activate()
    importlib.import_module("torch.distributed.device_mesh")

    results = {}
    for one in chosen:
        results[one.key] = _run(one, early.get(one.key, {}), way, seed)
        if seed:
            print(f"\n{json.dumps({one.key: results[one.key]})}", flush=True)
    print(json.dumps({"results": results, "status": hpushim.status()}))


def _module(name: str) -> dict[str, Any]:
    """The names of a module of the user's, as if it had been imported by now."""
    import types

    module = types.ModuleType("early_" + "".join(ch if ch.isalnum() else "_" for ch in name))
    sys.modules[module.__name__] = module
    return module.__dict__


def _run(
    one: Any, scope: dict[str, Any], way: str, seed: str
) -> tuple[str, list[str], dict[str, Any]]:
    import numpy as np
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional

    from hpushim.shim import log

    log.forget()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snippet.py"
        file.write_text(one.code, encoding="utf-8")
        scope |= {
            "torch": torch, "nn": nn, "F": functional, "np": np, "dist": dist, "tmp": Path(folder),
        }  # fmt: skip
        outcome, given = "ok", {*scope, "__builtins__"}
        if seed:
            torch.manual_seed(int(seed))
            signal.alarm(LIMIT)
        try:
            exec(_compiled(one, str(file), way), scope)
        except BaseException as error:
            if os.environ.get("IDIOM_TRACE"):
                traceback.print_exc()
            outcome = f"{type(error).__name__}: {error}".splitlines()[0]
        held: dict[str, Any] = {}
        if seed:
            signal.alarm(0)
            import cuda_answers

            held = cuda_answers.of(scope, given)
    return outcome, sorted({row["code"] for row in log.fired()}), held


def _compiled(one: Any, file: str, way: str) -> Any:
    if way != "shim":  # what an idiom asserts is the shim's answer
        return compile(one.code, file, "exec", optimize=1)
    if not one.rewritten:
        return compile(one.code, file, "exec")
    from hpushim.shim.run import compiling

    return compiling.compiled(file, one.code.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
