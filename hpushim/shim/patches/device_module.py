"""torch.hpu as the module of a device's type: what CUDA code finds behind ``torch.get_device_module`` or ``getattr(torch, device.type)``."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from hpushim.shim.mechanisms import in_place
from hpushim.shim.mechanisms.in_place import Undo
from hpushim.shim.patch import APPROXIMATE, patch

#: Functions of torch.cuda that do nothing or answer for hpu, and that torch.hpu has not.
_LENT = (
    "empty_cache",
    "ipc_collect",
    "memory_snapshot",
    "memory_stats_as_nested_dict",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "set_per_process_memory_fraction",
)
_DESCRIBED = "get_device_properties"
#: Functions of torch.hpu with fewer parameters than those of torch.cuda: the device, or how to say it.
_NARROWER = ("is_bf16_supported", "memory_summary", "synchronize")


@patch("torch", how="hook", row="torch.get_device_module", level=APPROXIMATE)
def functions_of_cuda() -> Undo | None:
    """Code that looks its backend's module up by a device's type calls there what it would call of torch.cuda.

    The description of a Gaudi stays the text that it is, and has the fields of CUDA's as well.
    """
    import torch

    hpu: Any = torch.hpu
    before = set(vars(hpu))
    for name in _LENT:
        if not hasattr(hpu, name):
            setattr(hpu, name, getattr(torch.cuda, name))
    undos = []
    if (function := in_place.plain_function(vars(hpu).get(_DESCRIBED))) is not None:
        describe = in_place.clone(function)

        def described(device: Any = None) -> Any:
            from hpushim.shim import properties

            return properties.Description(describe(device), properties.of(hpu))

        undos.append(in_place.exchange_code(function, described))
    for name in _NARROWER:
        if (function := in_place.plain_function(vars(hpu).get(name))) is not None:
            dropping = _dropping(in_place.clone(function))
            undos.append(in_place.exchange_code(function, dropping, wider=True))

    def undo() -> bool:
        for name in set(_LENT) - before:
            vars(hpu).pop(name, None)
        return all(one() for one in undos)

    return undo


def _dropping(function: types.FunctionType) -> Callable[..., Any]:
    """``function``, called without the arguments that it has no parameter for."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args[: len(names)], **{k: v for k, v in kwargs.items() if k in names})

    return called
