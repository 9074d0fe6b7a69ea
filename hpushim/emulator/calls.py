"""Objections to calls that no operator shows: TorchScript over hpu tensors, wrappers and hooks that Gaudi does not have,
functions whose own checks refuse hpu in the torch of the emulated release.

What the matrix calls unsupported is reported under ``observe`` and refused under the other policies.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

from hpushim import callers
from hpushim.emulator import device, profiles
from hpushim.matrix.schema import Generation

_reported: set[tuple[str, str]] = set()
#: Functions that are to be replaced where torch holds them: name, the function, what takes its place.
_functions: list[tuple[str, Any, Any]] = []

Test = Callable[..., bool]


def install() -> None:
    """Has torch's own entry points ask before they run; once a process."""
    import torch

    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        _guard(kind, "__call__", "torch.jit.script", _script_on_hpu)
    _guard(torch.nn.DataParallel, "__init__", "torch.nn.DataParallel", _module_on_hpu, ignored=True)
    for owner, name in ((torch.Tensor, "share_memory_"), (torch.nn.Module, "share_memory")):
        _guard(owner, name, "torch.nn.Module.share_memory", _any_on_hpu)
    norm, nested = "torch.nn.SyncBatchNorm", "torch.nested.nested_tensor"
    _guard(torch.nn.SyncBatchNorm, "forward", norm, _where_refused(norm, _any_on_hpu))
    for name in ("nested_tensor", "as_nested_tensor"):
        _guard(torch.nested, name, nested, _where_refused(nested, _nests_on_hpu))
    _guard_memory()
    if torch.distributed.is_available():
        _guard_distributed()
    _put_functions()


def _guard_memory() -> None:
    """The functions of torch.accelerator that ask the allocator, where this torch has them."""
    import torch

    from hpushim.matrix import load

    row = load().row("torch.accelerator.memory_allocated")
    for name in row.names if row is not None else ():
        word = name.rpartition(".")[2]
        if hasattr(torch.accelerator, word):
            _guard(torch.accelerator, word, name, lambda *args, **kwargs: _users())


def _guard_distributed() -> None:
    from torch.distributed import distributed_c10d
    from torch.nn.parallel import DistributedDataParallel

    hooks = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks."
    for hook in ("fp16_compress_hook", "bf16_compress_hook"):

        def registers(wrapped: Any, *args: Any, _hook: str = hook, **kwargs: Any) -> bool:
            given = (*args, *kwargs.values())
            named = any(getattr(one, "__name__", "") == _hook for one in given)
            return named and _module_on_hpu(None, wrapped)

        _guard(DistributedDataParallel, "register_comm_hook", hooks + hook, registers)

    for name in ("send_object_list", "recv_object_list"):
        _guard(distributed_c10d, name, f"torch.distributed.{name}", _sends_over_hccl)
    # Those that init_process_group and new_group call: a script may hold these two by name since before the device started.
    start, group = "torch.distributed.init_process_group", "torch.distributed.new_group"
    _guard(distributed_c10d, "_new_process_group_helper", f"{start}(device_id=)", _binds_device)
    _guard(
        distributed_c10d,
        "_new_group_with_tag",
        f"{group}(use_local_synchronization=)",
        _special_group,
    )


def _guard(owner: Any, name: str, row: str, applies: Test, ignored: bool = False) -> None:
    """Has ``owner.name`` object, in the words of a row, where ``applies`` is true of its arguments.

    What is ``ignored`` goes on under every policy: a Gaudi refuses nothing there, it does not do it.

    A method is set on its class; a function, which has to be one that only torch calls, in the modules that hold it, by
    :func:`_put_functions`.
    """
    original = getattr(owner, name)
    marks = vars(original).setdefault("__hpushim_asks__", set()) if hasattr(original, "__dict__") else set()  # fmt: skip
    if row in marks:
        return

    def guarded(*args: Any, **kwargs: Any) -> Any:
        if applies(*args, **kwargs):
            object_to(row, ignored)
        return original(*args, **kwargs)

    functools.update_wrapper(guarded, original)
    vars(guarded)["__hpushim_asks__"] = {*marks, row}
    if isinstance(owner, type):
        setattr(owner, name, guarded)
        return
    _functions.append((original.__name__, original, guarded))


def _put_functions() -> None:
    """Replaces functions in every module of torch that holds them: one walk for all of them."""
    for key, module in list(sys.modules.items()):
        if key.partition(".")[0] == "torch":
            held = vars(module)
            for name, original, guarded in _functions:
                if held.get(name) is original:
                    setattr(module, name, guarded)
    _functions.clear()


def object_to(name: str, ignored: bool = False) -> None:
    """Say in the words of a row that Gaudi does not do this: a report under ``observe`` and where it is ``ignored``, else NotImplementedError."""
    from hpushim.emulator import objections
    from hpushim.matrix import load

    profile = profiles.current()
    row = load().row(name)
    if row is None:
        return
    why = [one.text for one in _verdict(name).limits if one.status == "unsupported" and one.text]
    file, line = callers.user_site()
    site = f"{file}:{line}"
    device.load().note("unsupported", name)
    does = "has no effect" if ignored else "does not work"
    text = f"{name} {does} on {profile.gaudi}: {why[-1] if why else row.note}"
    if not ignored and profile.policy != "observe":
        raise NotImplementedError(
            f"{site}: {row.rule} {text} (emulated HPU; HPUSHIM_POLICY=observe goes on)"
        )
    if (name, site) not in _reported:
        _reported.add((name, site))
        objections.report(row.rule, site, text, refused=not ignored)


def _verdict(name: str) -> Any:
    """What the matrix says of a row's name on the emulated target."""
    profile = profiles.current()
    return _assessed(name, profile.gaudi, profile.release, profile.lazy)


@functools.cache
def _assessed(name: str, gaudi: Generation, release: str, lazy: bool) -> Any:
    from hpushim.matrix import load
    from hpushim.model import Target

    row = load().row(name)
    assert row is not None, name
    here = Target(gaudi=gaudi, stack=release, mode="lazy" if lazy else "eager")
    return load().assess(row, here)


def refuses(name: str) -> bool:
    """Whether the emulated target refuses what a row is about, where others may not."""
    return bool(_verdict(name).status == "unsupported")


# -- what is tested ------------------------------------------------------------------------------


def _where_refused(row: str, applies: Test) -> Test:
    """The question, on the targets alone that refuse it."""
    return lambda *args, **kwargs: applies(*args, **kwargs) and refuses(row)


def _nests_on_hpu(*args: Any, **kwargs: Any) -> bool:
    """A nested tensor of strided layout on hpu; the other layout, jagged, is one of plain tensors."""
    import torch
    from torch.utils._pytree import tree_leaves

    if kwargs.get("layout", torch.strided) is not torch.strided:
        return False
    device = kwargs.get("device")
    if device is not None:
        return bool(torch.device(device).type == "hpu")
    return any(_is_on_hpu(one) for one in tree_leaves(args))


def _sends_over_hccl(
    objects: Any, peer: Any = None, group: Any = None, device: Any = None, *_: Any, **__: Any
) -> bool:
    import torch

    if device is not None:
        return bool(torch.device(device).type == "hpu")
    return bool(torch.distributed.get_backend(group) == "hccl")


def _any_on_hpu(*args: Any, **kwargs: Any) -> bool:
    return any(_is_on_hpu(one) for one in (*args, *kwargs.values()))


def _is_on_hpu(value: Any) -> bool:
    import torch

    if isinstance(value, torch.nn.Module):
        return any(one.device.type == "hpu" for one in value.parameters())
    return isinstance(value, torch.Tensor) and value.device.type == "hpu"


def _module_on_hpu(_: Any, module: Any, *args: Any, **kwargs: Any) -> bool:
    return _is_on_hpu(module)


def _script_on_hpu(script: Any, *args: Any, **kwargs: Any) -> bool:
    from torch.utils._pytree import tree_leaves

    tensors = [one for one in tree_leaves((args, kwargs)) if hasattr(one, "device")]
    if not tensors and hasattr(script, "owner"):
        with contextlib.suppress(AttributeError):  # of an object of a C++ class, which has none
            tensors = [value for _, value in script.owner.named_parameters()][:1]
    return any(_is_on_hpu(one) for one in tensors)


def _binds_device(*args: Any, **kwargs: Any) -> bool:
    """``init_process_group(device_id=)``: later groups inherit theirs."""
    import torch.distributed as dist

    given = kwargs.get("device_id") is not None and not dist.is_initialized()
    return given and _users() and _over_hccl(*args, **kwargs)


def _special_group(*args: Any, **kwargs: Any) -> bool:
    names = ("use_local_synchronization", "group_desc", "device_id")
    return any(kwargs.get(name) for name in names) and _users() and _over_hccl(*args, **kwargs)


def _users() -> bool:
    """Whether a user's code made the call: what torch passes to itself, no user requested."""
    plumbing = (
        "hpushim",
        "contextlib",
        "functools",
        "torch.distributed.distributed_c10d",
        "torch.distributed.c10d_logger",
    )
    return callers.outside(*plumbing).partition(".")[0] != "torch"


def _over_hccl(*args: Any, **kwargs: Any) -> bool:
    import torch.distributed as dist

    backend = next((str(a) for a in (*args, kwargs.get("backend")) if isinstance(a, str)), "")
    if "hccl" in backend or not dist.is_initialized():
        return "hccl" in backend
    return str(dist.get_backend()) == "hccl"
