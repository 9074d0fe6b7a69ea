"""Runs pieces of code on the emulated HPU, each in a forked child of one process that holds torch, and says what they printed and left behind.

``python page_runner.py shim|native`` reads ``[[key, source, given], …]`` as JSON and prints ``{key: outcome}``: under the shim as
``hpushim run`` would run them, or with nothing but torch and the device. The mode (lazy or not) comes from the environment.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import signal
import sys
import tempfile
import traceback
import types
from pathlib import Path
from typing import Any

SECONDS = 60
#: Tensors up to this many elements are compared by value.
_SHOWN = 64
#: What torch imports by itself at the first optimizer, graph or group.
_COMMON = (
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch.distributed.fsdp",
    "torch.profiler",
)


def main(way: str) -> None:
    """Prints the outcomes as one JSON object on the last line."""
    cases = json.load(sys.stdin)
    os.environ["HPUSHIM"] = "off"
    import torch

    import hpushim
    from hpushim.shim import detect

    torch.set_num_threads(1)
    if way == "shim":
        os.environ["HPUSHIM"] = "emulate"
        hpushim.activate()
    else:
        detect.emulate()
    for name in _COMMON:  # once, and not in every child
        importlib.import_module(name)
    _compiled("example.py", "", way)
    gc.collect()
    gc.freeze()
    results = {key: _forked(source, given, way) for key, source, given in cases}
    print(json.dumps(results))


def _forked(source: str, given: list[str], way: str) -> dict[str, Any]:
    """What a child that runs the source says; ``died`` where it says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said.json"
        pid = os.fork()
        if pid == 0:
            try:
                signal.alarm(SECONDS)
                os.chdir(folder)
                said.write_text(json.dumps(_outcome(source, given, way)), encoding="utf-8")
            finally:
                os._exit(0)
        _, status, used = os.wait4(pid, 0)
        seconds = round(used.ru_utime + used.ru_stime, 2)
        if not said.exists():
            return {"error": f"the process died with status {status}", "seconds": seconds}
        result = json.loads(said.read_text(encoding="utf-8"))
        return {**result, "seconds": seconds}


def _outcome(source: str, given: list[str], way: str) -> dict[str, Any]:
    import torch

    torch.manual_seed(1)
    module = types.ModuleType("example")
    sys.modules["example"] = module
    sys.argv = ["example.py", *given]
    sys.path.insert(0, str(Path.cwd()))
    file = Path("example.py").resolve()
    file.write_text(source, encoding="utf-8")
    module.__dict__.update(__name__="__main__", __file__=str(file))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(_compiled(str(file), source, way), module.__dict__)
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = next((f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)), 0)  # fmt: skip
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"error": f"line {line}: {text} ({Path(last.filename).name}:{last.lineno})"}
    names = {
        name: told
        for name, value in module.__dict__.items()
        if not name.startswith("_") and (told := _told(value, 0)) is not None
    }
    return {"printed": printed.getvalue(), "names": names}


def _compiled(file: str, source: str, way: str) -> Any:
    if way != "shim":
        return compile(source, file, "exec")
    from hpushim.shim.run import compiling

    return compiling.compiled(file, source.encode())


def _told(value: Any, depth: int) -> Any:
    """A value as JSON, devices by their type; None for what two ways of writing may bind differently (modules, functions, classes)."""
    import torch

    if isinstance(value, torch.Tensor):
        shown = value.detach()
        few = shown.numel() <= _SHOWN and not shown.is_sparse
        values = [float(f"{float(v):.5g}") for v in shown.cpu().double().flatten()] if few else []
        return ["tensor", shown.device.type, str(shown.dtype), list(shown.shape), values]
    if isinstance(value, torch.device):
        return ["device", value.type]
    if isinstance(value, torch.nn.Module):
        parameters = list(value.parameters())
        kinds = sorted({f"{p.device.type} {p.dtype}" for p in parameters})
        return ["module", kinds, [_told(p, 1) for p in parameters]]
    if isinstance(value, (bool, int, str, torch.dtype)) or value is None:
        return ["value", str(value)]
    if isinstance(value, float):
        return ["value", float(f"{value:.5g}")]
    if isinstance(value, (list, tuple, set)) and depth < 4:
        told = [_told(one, depth + 1) for one in value]
        return [type(value).__name__, sorted(told, key=str) if isinstance(value, set) else told]
    if isinstance(value, dict) and depth < 4:
        return ["dict", [[_told(k, depth + 1), _told(v, depth + 1)] for k, v in value.items()]]
    if isinstance(value, (types.ModuleType, type)) or callable(value):
        return None
    return ["a", type(value).__name__]


if __name__ == "__main__":
    main(*sys.argv[1:])
