"""Runs the probes of ``honesty.toml`` in this process and prints, as JSON, what was said of each: ``refused``, ``told`` or nothing.

``python honesty_runner.py shim|native``; the policy and the mode (lazy or not) come from the environment.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import tomli

_SECONDS = 40
TABLE = Path(__file__).parent / "honesty.toml"
_CODE = re.compile(r"HPU\d{3}")
# Torch's own words for what a CPU build lacks.
_TORCHS = re.compile(
    r"not compiled with|CUDA|cuda|nccl|NCCL|has no attribute|dummy base class|not linked|NVML|nvml"
)


def main(mode: str) -> None:
    """Prints ``{"name": [outcome, text]}`` on the last line."""
    os.environ["HPUSHIM"] = "off"
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional

    import hpushim
    from hpushim.emulator import calls
    from hpushim.shim import detect, log

    detect.emulate()
    if mode == "shim":
        os.environ["HPUSHIM"] = "emulate"
        hpushim.activate()
    warnings.simplefilter("ignore")
    torch.ones(1, device="hpu")
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hpushim").addHandler(handler)
    results: dict[str, Any] = {}
    lazy = os.environ["PT_HPU_LAZY_MODE"] == "1"
    for row in tomli.loads(TABLE.read_text(encoding="utf-8"))["row"]:
        if row.get("lazy", False) is not lazy:
            continue
        log.forget()
        calls._reported.clear()
        said.clear()
        with tempfile.TemporaryDirectory() as folder:
            scope = {
                "torch": torch, "nn": nn, "F": functional, "dist": dist, "tmp": Path(folder),
                "D": "cuda" if mode == "shim" else "hpu",
            }  # fmt: skip
            results[row["name"]] = _outcome(row["probe"], scope, said)
            if dist.is_initialized():
                dist.destroy_process_group()
    print(json.dumps(results))


def _outcome(probe: str, scope: dict[str, Any], said: list[str]) -> tuple[str, str]:
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_SECONDS)
    try:
        exec(compile(probe, "<probe>", "exec"), scope)
    except TimeoutError:
        return "waits", ""
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        told = "refused" if _CODE.search(text) or "emulated" in text else "torch's own" if _TORCHS.search(text) else "error"  # fmt: skip
        return told, text[:300]
    finally:
        signal.alarm(0)
    codes = [line for line in said if _CODE.search(line)]
    return ("told", codes[0][:300]) if codes else ("silent", "")


def _too_long(*_: Any) -> None:
    raise TimeoutError


if __name__ == "__main__":
    main(*sys.argv[1:])
