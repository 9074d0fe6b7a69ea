"""Runs the idioms of one process and prints, as JSON, what became of each: ``ok`` or what was raised, and the codes that were said.

With a way and a seed (see ``tests/cuda_machine/recording.py``) also what their names hold; with the way ``cuda`` without the shim.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any


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

    if way == "shim":
        os.environ["HPUSHIM"] = "emulate"
        hpushim.activate()
    importlib.import_module("torch.distributed.device_mesh")

    results = {one.key: _run(one, early.get(one.key, {}), way, seed) for one in chosen}
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
        try:
            exec(_compiled(one, str(file), way), scope)
        except BaseException as error:
            if os.environ.get("IDIOM_TRACE"):
                traceback.print_exc()
            outcome = f"{type(error).__name__}: {error}".splitlines()[0]
        held: dict[str, Any] = {}
        if seed:
            import cuda_answers

            held = cuda_answers.of(scope, given)
    return outcome, sorted({row["code"] for row in log.fired()}), held


def _compiled(one: Any, file: str, way: str) -> Any:
    if not one.rewritten or way == "cuda":
        return compile(one.code, file, "exec")
    from hpushim.shim.run import compiling

    return compiling.compiled(file, one.code.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
