"""What of torch a shim could change, by identity: run in a process of its own by ``test_lifecycle.py``.

``snapshot()`` walks every loaded torch module: attributes, code objects, defaults, class members, property functions,
constructor slots, the registries. Two snapshots are equal when torch is the same.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
import types
from typing import Any

_VOLATILE = {"__builtins__", "__cached__", "__warningregistry__", "__dict__", "__weakref__", "__annotations__", "__annotate_func__", "__static_attributes__", "__annotations_cache__"}  # fmt: skip


def snapshot() -> dict[str, int]:
    """Name to identity (or a hash of what cannot be compared by identity)."""
    import torch

    from hpushim.shim.mechanisms import constructor

    found: dict[str, int] = {}
    keep.clear()
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] != "torch" or not isinstance(module, types.ModuleType):
            continue
        found[f"{module_name}.type"] = id(type(module))
        for name, value in list(vars(module).items()):
            if name not in _VOLATILE:
                _add(found, f"{module_name}:{name}", value)
    for cls in (torch.device, torch.Generator):
        word = ctypes.c_void_p.from_address(id(cls) + constructor._slot_offset()).value
        found[f"slot:{cls.__name__}"] = word or 0
    hpu = getattr(torch, "hpu", None)
    for cls in (hpu.Stream, hpu.Event) if hasattr(hpu, "Stream") else ():
        found[f"members:{cls.__name__}"] = hash(tuple(sorted(vars(cls))))
    registry = torch.serialization._package_registry
    found["registry"] = hash(tuple(map(id, registry)))
    return found


keep: list[Any] = []


def _add(found: dict[str, int], key: str, value: Any) -> None:
    keep.append(value)
    found[key] = id(value)
    found[f"{key}.type"] = id(type(value))  # of a class, its metaclass
    # Types are asked, not attributes: some objects of torch answer any attribute with work of their own.
    inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if isinstance(value, property):
        for part in ("fget", "fset", "fdel"):
            found[f"{key}.{part}"] = id(getattr(value, part))
        inner = value.fget
    if isinstance(inner, functools._lru_cache_wrapper):
        inner = inner.__wrapped__
    if isinstance(value, types.BuiltinFunctionType):
        # What is called, and how its arguments are handed over: the words of the object that a mechanism writes.
        words = (ctypes.c_void_p * 7).from_address(id(value))
        found[f"{key}.words"] = hash((words[2], words[6]))
    if isinstance(inner, types.FunctionType):
        keep.append(inner)
        found[f"{key}.code"] = id(inner.__code__)
        found[f"{key}.defaults"] = id(inner.__defaults__)
        found[f"{key}.kwdefaults"] = hash(str(sorted(inner.__kwdefaults__ or {})))
        found[f"{key}.dict"] = hash(str(sorted(inner.__dict__)))
    if isinstance(value, type) and value.__module__.partition(".")[0] == "torch":
        for name, member in list(vars(value).items()):
            inside = f"{value.__module__}.{value.__qualname__}.{name}"
            if name not in _VOLATILE and inside not in found:
                if isinstance(member, type):
                    keep.append(member)
                    found[inside] = id(member)
                    found[f"{inside}.type"] = id(type(member))
                else:
                    _add(found, inside, member)


def difference(before: dict[str, int], after: dict[str, int]) -> list[str]:
    """Names that differ, leaving out modules that were imported in between."""
    return sorted(
        key
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key) and (key in before or "__hpushim_" in key)
    )


def use() -> None:
    """Calls of all kinds, through patches and the catch-all."""
    import torch

    x = torch.zeros(2, device="cuda")
    assert x.is_cuda and torch.cuda.is_available()
    assert isinstance(x, torch.cuda.FloatTensor) and torch.cuda.LongTensor([1]).is_cuda
    assert torch.hann_window(2, device="cuda").is_cuda and not torch.is_autocast_enabled()
    torch.cuda.synchronize()
    torch.cuda.memory_allocated()
    torch.cuda.get_device_name(0)
    with torch.autocast("cuda"):
        torch.nn.Linear(2, 2).cuda()(x)
    torch.Generator("cuda")


def main() -> None:
    """Runs the sequence of steps given as JSON and prints what differs at the end."""
    os.environ["HPUSHIM"] = "off"
    import torch
    import torch.distributed.fsdp

    import hpushim
    from hpushim.shim import detect

    detect.emulate()  # the device itself is no patch of the shim
    torch.hpu.init()
    os.environ["HPUSHIM"] = "emulate"
    reports = []
    for steps in json.loads(sys.argv[1]):
        before = snapshot()
        walk(steps)
        hpushim.deactivate()
        reports.append([difference(before, snapshot()), hpushim.status()["sticky"]])
    print(json.dumps(reports))


def walk(steps: list[Any]) -> None:
    """Takes the steps in their order: a name, steps inside a native block, or several lists of steps in threads at once."""
    import torch

    import hpushim

    for step in steps:
        if step == "activate":
            hpushim.activate()
        elif step == "deactivate":
            hpushim.deactivate()
        elif step == "use" and hpushim.status()["active"]:
            use()
        elif isinstance(step, dict) and "native" in step:
            with hpushim.native():
                assert str(torch.device("cuda")) == "cuda"
                assert not torch.cuda.is_available()
                walk(step["native"])
                assert not hpushim.status()["active"]
                assert str(torch.device("cuda")) == "cuda"
        elif isinstance(step, dict):
            together(step["threads"])


def together(lists: list[list[Any]]) -> None:
    """Each list of steps in a thread of its own, all at once; what one of them raises is raised here."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max(len(lists), 1)) as pool:
        for done in [pool.submit(walk_among_others, steps) for steps in lists]:
            done.result()


def walk_among_others(steps: list[str]) -> None:
    """Steps whose outcome other threads may change in between: only that nothing breaks can be asked."""
    import torch

    import hpushim

    for step in steps:
        if step == "activate":
            hpushim.activate()
        elif step == "deactivate":
            hpushim.deactivate()
        elif step == "native":
            with hpushim.native():
                assert not hpushim.status()["active"]
                torch.zeros(2).sum()
        else:
            torch.zeros(2, device="cpu").sum()
            torch.device("cpu")
            torch.nn.Linear(2, 2)(torch.ones(1, 2))


if __name__ == "__main__":
    main()
