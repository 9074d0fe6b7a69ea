"""Runs the idioms of one group in this process and prints the outcome of each as JSON: ``ok``, or what was raised.

The second argument names the table: ``idioms`` (default) or another module beside this one.
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


def main(group: str, table: str = "idioms") -> None:
    """Prints ``{name: outcome}`` on the last line."""
    here = Path(__file__).parent
    sys.path.insert(0, str(here))
    from idioms import Idiom

    every = getattr(importlib.import_module(table), table.upper())
    chosen = [idiom for idiom in every if idiom.group == group]
    early: dict[str, dict[str, Any]] = {}
    if group == "early":
        os.environ["HPUSHIM"] = "off"  # torch first, without the shim
        for idiom in chosen:
            early[idiom.name] = {}
            exec(idiom.early, early[idiom.name])
    os.environ["HPUSHIM"] = "emulate"
    import hpushim

    hpushim.activate()
    import numpy as np
    import torch
    import torch.distributed as dist
    import torch.distributed.device_mesh
    from torch import nn
    from torch.nn import functional

    def outcome(idiom: Idiom) -> str:
        with tempfile.TemporaryDirectory() as folder:
            scope = {
                "torch": torch, "nn": nn, "F": functional, "np": np, "dist": dist, "tmp": Path(folder),
                **early.get(idiom.name, {}),
            }  # fmt: skip
            file = Path(folder) / "snippet.py"
            file.write_text(idiom.code, encoding="utf-8")
            try:
                exec(_compiled(idiom, str(file)), scope)
            except BaseException as error:
                if os.environ.get("IDIOM_TRACE"):
                    traceback.print_exc()
                return f"{type(error).__name__}: {error}".splitlines()[0]
        return "ok"

    results = {idiom.name: outcome(idiom) for idiom in chosen}
    print(json.dumps({"results": results, "status": hpushim.status()}))


def _compiled(idiom: Any, file: str) -> Any:
    if idiom.group != "rewritten":
        return compile(idiom.code, file, "exec")
    from hpushim.shim import loading

    return loading.compiled(file, idiom.code.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
