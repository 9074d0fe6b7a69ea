"""Touches every name that it is given, and calls what can be called, each with the least that its signature asks for.

Reads one name a line from standard input and prints ``name<TAB>verdict<TAB>detail``: ``works``, ``refused`` (an error with an HPU code),
``absent`` (no such name), ``defect`` (an error that speaks of CUDA, without a code), ``error`` (any other error, which the
arguments made up here may have caused). A few names at a time run in a child of this process.
``--plain`` leaves the shim out: what torch alone says.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SECONDS = 20
_BATCH = 25
# Imported once, before the children are made.
_SLOW = (
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.optim",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
)
_CODE = re.compile(r"HPU\d{3}")
_OF_CUDA = re.compile(
    r"cuda|nvidia|nvml|nccl|cudnn|dummy base|not (?:compiled|linked)|not supported on this platform"
    r"|'torch\._C' has no|amdsmi|\bgpu\b",
    re.IGNORECASE,
)
# What Python and pybind say of arguments that do not fit.
_SHAPE = re.compile(
    r"incompatible (?:function|constructor) arguments|required (?:positional|keyword)"
)


def main(*options: str) -> None:
    """Reads, touches, prints."""
    os.environ["HPUSHIM"] = "off" if "--plain" in options else "emulate"
    import hpushim

    hpushim.activate()
    names = sys.stdin.read().split()
    importlib.import_module("torch.distributed")
    for module in _SLOW if len(names) > _BATCH else ():
        importlib.import_module(module)
    while names:
        done = _in_child(names[:_BATCH])
        names = names[done:]


def _in_child(names: list[str]) -> int:
    """Touches the names in a child and prints what it says; how many were dealt with. A child that dies takes one name with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        for name in names:
            signal.alarm(_SECONDS)
            os.write(writing, "\t".join((name, *touch(name)))[:2000].encode() + b"\n")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as stream:
        answers = stream.read().splitlines()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        ended = signal.Signals(os.WTERMSIG(status)).name
        answers.append(f"{names[len(answers)]}\tdefect\tthe process ended by {ended}")
    print(*answers, sep="\n", flush=True)
    return len(answers)


def touch(name: str) -> tuple[str, str]:
    """The verdict on one name, and what was said."""
    quiet = contextlib.redirect_stderr(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, quiet, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            found = resolve(name)
        except Exception as error:
            return _assessed(error, absent=isinstance(error, AttributeError | ImportError))
        if inspect.ismodule(found) or not callable(found):
            return "works", "read"
        try:
            if name.startswith("torch.distributed."):
                _group()
            _called(found, Path(folder))
        except (Exception, SystemExit) as error:
            return _assessed(error)
    return "works", "called"


def resolve(name: str) -> Any:
    """The object of a dotted name, importing as much of it as is a module. Raises as the import or the access does."""
    parts = name.split(".")
    if parts[:2] == ["torch", "distributed"] and len(parts) == 3:
        # Real code reaches these through the package or through the module that holds them.
        held = importlib.import_module("torch.distributed.distributed_c10d")
        if parts[2].startswith("_") and hasattr(held, parts[2]):
            return getattr(held, parts[2])
    found = importlib.import_module(parts[0])
    for depth, part in enumerate(parts[1:], 2):
        try:
            found = getattr(found, part)
        except AttributeError:
            if not inspect.ismodule(found):
                raise
            try:
                found = importlib.import_module(".".join(parts[:depth]))
            except ModuleNotFoundError as missing:
                if _CODE.search(str(missing)):
                    raise
                raise AttributeError(f"no {name}") from missing
    return found


def _group() -> None:
    """A process group of this process alone, as the script's launcher would have made it."""
    import torch.distributed as dist

    if not dist.is_initialized():
        store = dist.HashStore()
        dist.init_process_group("cpu:gloo,cuda:nccl", store=store, rank=0, world_size=1)


def _assessed(error: BaseException, *, absent: bool = False) -> tuple[str, str]:
    text = _line(error)
    if _CODE.search(text):
        return "refused", text
    if absent:
        return "absent", text
    return (
        "defect" if _OF_CUDA.search(_line(error)) and not _SHAPE.search(str(error)) else "error"
    ), text


def _line(error: BaseException) -> str:
    return (f"{type(error).__name__}: {error}".splitlines() or [""])[0][:300]


def _called(function: Callable[..., Any], folder: Path) -> None:
    made = function(*_arguments(function, folder))
    if hasattr(made, "__enter__") and not isinstance(made, type):
        with made:
            pass


def _arguments(function: Callable[..., Any], folder: Path) -> list[Any]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        _made_up(p.name, folder) for p in parameters if p.kind in kinds and p.default is p.empty
    ]


def _made_up(name: str, folder: Path) -> Any:
    """A value for a parameter, by its name; a tensor on the device for a name that says nothing."""
    import torch

    def tensor() -> Any:
        return torch.ones(4, device="cuda")

    values: dict[str, Callable[[], Any]] = {
        "device": lambda: "cuda",
        "dev": lambda: "cuda",
        "device_type": lambda: "cuda",
        "device_id": lambda: 0,
        "peer_device": lambda: 0,
        "stream": torch.cuda.current_stream,
        "seed": lambda: 1,
        "fraction": lambda: 0.5,
        "new_state": torch.get_rng_state,
        "new_states": lambda: [torch.get_rng_state()],
        "msg": lambda: "a",
        "name": lambda: "a",
        "backend": lambda: "nccl",
        "backend_name": lambda: "nccl",
        "module": lambda: torch.nn.Linear(4, 4).cuda(),
        "model": lambda: torch.nn.Linear(4, 4).cuda(),
        "optimizer": lambda: torch.optim.SGD([tensor()], 0.1),
        "params": lambda: [torch.nn.Parameter(tensor())],
        "tensor_list": lambda: [tensor()],
        "tensors": lambda: [tensor()],
        "inputs": lambda: [tensor()],
        "outputs": lambda: [tensor()],
        "devices": lambda: [0],
        "dst_type": lambda: torch.float32,
        "dtype": lambda: torch.float16,
        "enabled": lambda: True,
        "mode": lambda: 0,
        "sync_dispatch": lambda: True,
        "value": lambda: 1,
        "size": lambda: 8,
        "filename": lambda: str(folder / "file"),
        "path": lambda: str(folder / "file"),
        "callable": lambda: lambda *args: None,
        "callables": lambda: torch.nn.Linear(4, 4).cuda(),
        "func": lambda: lambda *args: None,
        "fwd": lambda: lambda ctx, x: x,
        "bwd": lambda: lambda ctx, x: x,
        "sample_args": lambda: (tensor(),),
        "backends": lambda: [torch.nn.attention.SDPBackend.FLASH_ATTENTION],
        "normalized_shape": lambda: 4,
        "rank": lambda: 0,
        "world_size": lambda: 1,
        "src": lambda: 0,
        "dst": lambda: 0,
        "obj": lambda: {"a": 1},
        "object_list": lambda: [None],
    }
    return values[name]() if name in values else tensor()


if __name__ == "__main__":
    main(*sys.argv[1:])
