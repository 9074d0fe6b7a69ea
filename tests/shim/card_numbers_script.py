"""Asks for a card beyond the last in every way that torch has, each way with a number of its own; prints what was answered and said.

``hands``: entry points that take a device and are called with one below, by hand. Every function and class of ``torch.cuda`` whose
signature has a device is called by itself: a release that brings another brings another line.
"""

from __future__ import annotations

import inspect
import io
import json
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import hpushim

hpushim.activate()

import torch  # noqa: E402
import torch.cuda.comm  # noqa: E402
from torch import nn  # noqa: E402

from hpushim.shim import log  # noqa: E402

FIRST = 20  # no machine, real or emulated, has as many cards
#: What is handed in for arguments that have no default.
REQUIRED = {"new_state": torch.cuda.get_rng_state(), "fraction": 0.5, "size": 16, "data_ptr": 0, "pool": None, "stream_ptr": 0}  # fmt: skip
#: Arguments that are devices.
NAMES = ("device", "peer_device")


def by_hand() -> dict[str, Callable[[int], Any]]:
    """Entry points outside ``torch.cuda``, and those whose signature does not say that they take a card."""
    saved = io.BytesIO()
    torch.save(torch.ones(2), saved)
    scripted = io.BytesIO()
    torch.jit.save(torch.jit.trace(nn.ReLU(), torch.ones(2)), scripted)
    x, host = torch.ones(2, device="cuda"), torch.ones(2)

    def load(where: Any) -> Any:
        saved.seek(0)
        return torch.load(saved, map_location=where)

    def load_script(where: Any) -> Any:
        scripted.seek(0)
        return torch.jit.load(scripted, map_location=where)

    def default(n: int) -> Any:
        torch.set_default_device(f"cuda:{n}")
        made = torch.ones(1)
        torch.set_default_device(None)
        return made

    def block(where: Any) -> Any:
        with where:
            return torch.ones(1, device="cuda")

    return {
        "device(text)": lambda n: torch.device(f"cuda:{n}"),
        "device(type, index)": lambda n: torch.device("cuda", n),
        "device(type=, index=)": lambda n: torch.device(type="cuda", index=n),
        "device(index)": torch.device,
        "with device": lambda n: block(torch.device(f"cuda:{n}")),
        "set_default_device": default,
        "Tensor.to": lambda n: host.to(f"cuda:{n}"),
        "Tensor.to(index)": host.to,
        "Tensor.to(device=)": lambda n: host.to(device=f"cuda:{n}", dtype=torch.float16),
        "Tensor.cuda": host.cuda,
        "Tensor.cuda(device=)": lambda n: host.cuda(device=f"cuda:{n}"),
        "Tensor.cuda, there already": x.cuda,
        "Tensor.new_zeros": lambda n: x.new_zeros(2, device=f"cuda:{n}"),
        "Tensor.new_tensor": lambda n: x.new_tensor([1.0], device=n),
        "Tensor.pin_memory": lambda n: host.pin_memory(f"cuda:{n}"),
        "Tensor.is_pinned": lambda n: host.is_pinned(f"cuda:{n}"),
        "Storage.cuda": lambda n: host.untyped_storage().cuda(n),
        "TypedStorage.cuda": lambda n: host.storage().cuda(n),
        "Module.to": lambda n: nn.Linear(1, 1).to(f"cuda:{n}"),
        "Module.to(index)": lambda n: nn.Linear(1, 1).to(n),
        "Module.cuda": lambda n: nn.Linear(1, 1).cuda(n),
        "Module.to_empty": lambda n: nn.Linear(1, 1).to_empty(device=f"cuda:{n}"),
        "Module(device=)": lambda n: nn.Linear(1, 1, device=f"cuda:{n}"),
        "Module(device=index)": lambda n: nn.Linear(1, 1, device=n),
        "UntypedStorage(device=)": lambda n: torch.UntypedStorage(8, device=f"cuda:{n}"),
        "TypedStorage(device=)": lambda n: torch.TypedStorage(2, dtype=torch.float32, device=f"cuda:{n}"),
        "_parse_to": lambda n: torch._C._nn._parse_to(f"cuda:{n}"),
        "PackedSequence.cuda": lambda n: nn.utils.rnn.pack_sequence([host]).cuda(n),
        "zeros": lambda n: torch.zeros(1, device=f"cuda:{n}"),
        "zeros(index)": lambda n: torch.zeros(1, device=n),
        "tensor": lambda n: torch.tensor([1.0], device=f"cuda:{n}"),
        "as_tensor": lambda n: torch.as_tensor([1.0], device=n),
        "empty_like": lambda n: torch.empty_like(host, device=f"cuda:{n}"),
        "Generator": lambda n: torch.Generator(f"cuda:{n}"),
        "Generator(device=)": lambda n: torch.Generator(device=f"cuda:{n}"),
        "Stream": lambda n: torch.Stream(f"cuda:{n}"),
        "Stream(device=)": lambda n: torch.Stream(device=f"cuda:{n}"),
        "Event": lambda n: torch.Event(f"cuda:{n}"),
        "cuda.Stream(device=)": lambda n: torch.cuda.Stream(device=f"cuda:{n}"),
        "cuda.device": lambda n: block(torch.cuda.device(n)),
        "cuda.device(text)": lambda n: block(torch.cuda.device(f"cuda:{n}")),
        "cuda.memory_allocated(text)": lambda n: torch.cuda.memory_allocated(f"cuda:{n}"),
        "cuda.memory_allocated(device=)": lambda n: torch.cuda.memory_allocated(device=n),
        "cuda.FloatTensor(device=)": lambda n: torch.cuda.FloatTensor(2, device=f"cuda:{n}"),
        "cuda.comm.broadcast": lambda n: torch.cuda.comm.broadcast(x, [n]),
        "cuda.comm.broadcast_coalesced": lambda n: torch.cuda.comm.broadcast_coalesced([x], [n]),
        "cuda.comm.scatter": lambda n: torch.cuda.comm.scatter(x, devices=[f"cuda:{n}"]),
        "load(text)": lambda n: load(f"cuda:{n}"),
        "load(device)": lambda n: load(torch.device("cuda", n)),
        "load(dict)": lambda n: load({"cpu": f"cuda:{n}"}),
        "load(function)": lambda n: load(lambda storage, place: storage.cuda(n)),
        "jit.load": lambda n: load_script(f"cuda:{n}"),
        "get_device_module": lambda n: torch.get_device_module(f"cuda:{n}"),
        "fork_rng": lambda n: block(torch.random.fork_rng([n])),
        "random.fork_rng(devices=)": lambda n: block(torch.random.fork_rng(devices=[f"cuda:{n}"])),
        "DataParallel": lambda n: nn.DataParallel(nn.Linear(1, 1).cuda(), device_ids=[n]),
    }  # fmt: skip


def walked() -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Every function and class of torch.cuda and its modules with a device in its signature, by its name."""
    parts = [m for m in vars(torch.cuda).values() if isinstance(m, types.ModuleType) and m.__name__.startswith("torch.cuda.")]  # fmt: skip
    seen: set[int] = set()
    for module in (torch.cuda, *parts):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name, None)
            if not callable(value) or id(value) in seen or name.endswith("Storage"):
                continue
            seen.add(id(value))
            try:
                parameters = inspect.signature(value).parameters.values()
            except (TypeError, ValueError):
                continue
            if any(one.name in NAMES for one in parameters):
                yield f"{module.__name__}.{name}", _call_of(value, list(parameters))


def _call_of(value: Any, parameters: list[inspect.Parameter]) -> Callable[[int], Any]:
    def call(n: int) -> Any:
        given = {one.name: REQUIRED[one.name] for one in parameters if one.name in REQUIRED}
        device = next(one.name for one in parameters if one.name in NAMES)
        more = {"peer_device": 0} if any(one.name == "peer_device" for one in parameters) else {}
        return value(**{**given, **more, device: n})

    return call


def main() -> None:
    """Prints, for each way, the number, the answer or the error, and how often HPU121 named the number."""
    rows = {}
    for n, (name, call) in enumerate([*by_hand().items(), *walked()], FIRST):
        try:
            answer = repr(call(n))[:200]
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"[:200]
        told = [one["text"] for one in log.fired() if one["code"] == "HPU121" and f"cuda:{n} " in one["text"]]  # fmt: skip
        rows[name] = (n, answer, told)
    print(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(main())
