"""Run by ``test_identity.py`` in a process of its own: what of torch's objects the shim's coming changes for those who hold them."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import sys
import types
import warnings
from typing import Any


def main() -> None:
    """Prints how many functions were asked, and what differs, by question."""
    os.environ["HPUSHIM"] = "off"
    warnings.simplefilter("ignore")
    import torch

    import hpushim
    from hpushim.shim import detect

    detect.emulate()  # the device itself is no patch of the shim
    modules = [
        module
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "torch" and isinstance(module, types.ModuleType)
    ]
    before = {(m.__name__, n): v for m in modules for n, v in list(vars(m).items())}
    classes = {
        one: dict(vars(one))
        for one in before.values()
        if type(one) is type and one.__module__.startswith("torch")
    }
    overridable = torch.overrides.get_overridable_functions()
    own = list({id(f): f for found in overridable.values() for f in found}.values())
    table = dict.fromkeys(own)
    names = [torch.overrides.resolve_name(f) for f in own]
    pickled = [_pickled(f) for f in own]
    written = [
        (f"{one.__module__}.{one.__qualname__}.{name}", member)
        for one in classes
        for name, member in vars(one).items()
        if isinstance(member, types.FunctionType)
    ]
    written += [(".".join(at), f) for at, f in before.items() if isinstance(f, types.FunctionType)]
    looks = [_looks(f) for _, f in written]

    os.environ["HPUSHIM"] = "emulate"
    hpushim.activate()
    found = {
        "replaced in a module": sorted(
            f"{module}.{name}"
            for (module, name), value in before.items()
            if callable(value) and vars(sys.modules[module]).get(name) is not value
        ),
        "replaced in a class": sorted(
            f"{one.__qualname__}.{name}"
            for one, members in classes.items()
            for name, member in members.items()
            if vars(one).get(name) is not member
        ),
        "no longer in a table": [str(f) for f in own if f not in table],
        "another name": [
            str(name)
            for f, name in zip(own, names, strict=True)
            if torch.overrides.resolve_name(f) != name
        ],
        "pickled otherwise": [
            str(f) for f, p in zip(own, pickled, strict=True) if _pickled(f) != p
        ],
        "other parameters": sorted(
            {name for (name, f), look in zip(written, looks, strict=True) if _looks(f) != look}
        ),
    }
    print(json.dumps({"asked": len(own), "found": found}))


def _looks(function: types.FunctionType) -> list[Any]:
    """What ``inspect`` and code that reads parameters by itself are told."""
    code = function.__code__
    taken = code.co_argcount + code.co_kwonlyargcount
    return [
        code.co_varnames[:taken],
        (code.co_argcount, code.co_posonlyargcount, code.co_flags & 0xC),
        (code.co_name, getattr(code, "co_qualname", ""), code.co_filename, code.co_firstlineno),
        (function.__name__, function.__qualname__, function.__module__, function.__doc__),
        (function.__defaults__, function.__kwdefaults__, id(function.__annotations__)),
        id(inspect.unwrap(function)),
        sorted(function.__dict__),
    ]


def _pickled(function: Any) -> bytes | None:
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


if __name__ == "__main__":
    main()
