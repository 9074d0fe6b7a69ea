"""Collectives of the Python API: averages, which HCCL lacks, and device tensors in a gloo group, which gloo lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.patch import APPROXIMATE, WARN, patch

Original = Callable[..., Any]

_C10D = "torch.distributed.distributed_c10d"
_FUNCTIONAL = "torch.distributed._functional_collectives"
_ROW = "torch.distributed.ReduceOp.AVG"
_GLOO = "gloo"


@patch(f"{_C10D}:reduce_scatter_single", row=_ROW, level=APPROXIMATE, since="2.13")
@patch(
    f"{_C10D}:all_reduce",
    f"{_C10D}:all_reduce_coalesced",
    f"{_C10D}:reduce_scatter",
    f"{_C10D}:reduce_scatter_tensor",
    row=_ROW,
    level=APPROXIMATE,
)
def averaged(original: Original, *args: Any, **kwargs: Any) -> Any:
    """``ReduceOp.AVG`` sums, and divides what came out, as NCCL does; with ``async_op=True`` when it is waited for."""
    size = _shares(args, kwargs)
    if not size:
        return carried(original, *args, **kwargs)
    summed, named = _summed(args, kwargs)
    return _divided(carried(original, *summed, **named), _results(args, kwargs), size)


@patch(f"{_C10D}:reduce", row=_ROW, level=APPROXIMATE)
def reduced_to_one(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Only the rank that gets the sum divides; the others keep what they gave."""
    size = _shares(args, kwargs)
    if not size:
        return carried(original, *args, **kwargs)
    import torch.distributed as dist

    group = _group(args, kwargs)
    dst = kwargs.get("dst", args[1] if len(args) > 1 else None)
    here = (
        dist.get_rank(group) == kwargs["group_dst"]
        if kwargs.get("group_dst") is not None
        else dist.get_rank() == dst
    )
    summed, named = _summed(args, kwargs)
    work = carried(original, *summed, **named)
    return _divided(work, _results(args, kwargs), size) if here else work


@patch(f"{_C10D}:all_gather_single", row=_GLOO, level=WARN, since="2.13")
@patch(
    f"{_C10D}:all_gather",
    f"{_C10D}:all_gather_into_tensor",
    f"{_C10D}:broadcast",
    f"{_C10D}:gather",
    f"{_C10D}:scatter",
    f"{_C10D}:all_to_all_single",
    f"{_C10D}:all_to_all",
    f"{_C10D}:send",
    f"{_C10D}:recv",
    f"{_C10D}:isend",
    f"{_C10D}:irecv",
    row=_GLOO,
    level=WARN,
)
def carried(original: Original, *args: Any, **kwargs: Any) -> Any:
    """In a gloo group device tensors go through the host, as gloo does with CUDA's; in any other group nothing changes."""
    import torch.distributed as dist

    if not dist.is_initialized() or dist.get_backend(_group(args, kwargs)) != "gloo":
        return original(*args, **kwargs)
    import torch
    from torch.utils._pytree import tree_map_only

    copies: dict[int, tuple[Any, Any]] = {}

    def on_host(tensor: Any) -> Any:
        if not devices.is_hpu(tensor.device):
            return tensor
        return copies.setdefault(id(tensor), (tensor, tensor.detach().cpu()))[1]

    given, named = tree_map_only(torch.Tensor, on_host, (args, kwargs))
    found = original(*given, **named)
    if not copies:
        return found
    log.warn(
        "HPU313",
        "gloo carries CPU tensors only: tensors of the device are copied through the host; "
        'init_process_group("nccl") has HCCL carry them',
    )

    def back() -> None:
        for tensor, copy in copies.values():
            tensor.detach().copy_(copy)

    if found is None or isinstance(found, int):  # recv gives the rank of the sender
        back()
        return found
    return SettlingWork(found, back)


def _shares(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """By what the sum of hpu tensors is divided; 0 where no average is requested, or not by this call.

    torch keeps back what is called in a coalesced block, and reduces at its end.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    if not any(_is_average(value) for value in (*args, kwargs.get("op"))):
        return 0
    if not any(devices.is_hpu(tensor.device) for tensor in _results(args, kwargs)):
        return 0
    group = _group(args, kwargs)
    if (group or dist.group.WORLD) in distributed_c10d._world.pg_coalesce_state:
        return 0
    size: int = dist.get_world_size(group)
    return max(0, size)


def _is_average(value: Any) -> bool:
    """Whether a value is ``ReduceOp.AVG``, in either of its two types."""
    import torch.distributed as dist

    kinds = (dist.ReduceOp, type(dist.ReduceOp.AVG))
    return isinstance(value, kinds) and bool(value == dist.ReduceOp.AVG)


def _summed(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments with ``ReduceOp.SUM``."""
    import torch.distributed as dist

    op = dist.ReduceOp.SUM
    return (
        tuple(op if _is_average(value) else value for value in args),
        {name: op if _is_average(value) else value for name, value in kwargs.items()},
    )


def _group(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import torch.distributed as dist

    return kwargs.get("group", next((a for a in args if isinstance(a, dist.ProcessGroup)), None))


def _results(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The tensors that the call fills: its first argument."""
    import torch

    first = (
        args[0]
        if args
        else next((kwargs[n] for n in ("tensor", "output", "tensors") if n in kwargs), None)
    )
    return [
        t
        for t in (first if isinstance(first, list | tuple) else [first])
        if isinstance(t, torch.Tensor)
    ]


def _divided(work: Any, tensors: list[Any], size: int) -> Any:
    def divide() -> None:
        for tensor in tensors:
            tensor.detach().div_(size, rounding_mode=_rounding(tensor))

    if work is not None:
        return SettlingWork(work, divide)
    divide()
    return None


def _rounding(tensor: Any) -> str | None:
    return None if tensor.is_floating_point() or tensor.is_complex() else "trunc"


class SettlingWork:
    """A collective's work with something left to do as soon as it is done; everything else is the work's own."""

    def __init__(self, work: Any, settle: Callable[[], None]) -> None:
        self._work = work
        self._left = [settle]

    def _settle(self) -> None:
        if self._left:
            self._left.pop()()

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """As of the work, with the result in its tensors."""
        done = self._work.wait(*args, **kwargs)
        self._settle()
        return done

    def synchronize(self) -> None:
        """As of the work."""
        self._work.synchronize()
        self._settle()

    def is_completed(self) -> bool:
        """As of the work; True only once the tensors hold the result."""
        if not self._work.is_completed():
            return False
        self.wait()
        return True

    def get_future(self) -> Any:
        """The work's future, done when the tensors hold the result."""

        def settled(future: Any) -> Any:
            self._settle()
            return future.value()

        return self._work.get_future().then(settled)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


@patch(f"{_FUNCTIONAL}:all_reduce", row=_ROW, level=APPROXIMATE)
@patch(f"{_FUNCTIONAL}:all_reduce_coalesced", row=_ROW, level=APPROXIMATE)
def functional_average(original: Original, *args: Any, **kwargs: Any) -> Any:
    """The form that returns its result: DTensor's, and what torch.compile makes of the others."""
    return _functional(original, 2, args, kwargs)


@patch(f"{_FUNCTIONAL}:reduce_scatter_tensor", row=_ROW, level=APPROXIMATE)
@patch(f"{_FUNCTIONAL}:reduce_scatter_tensor_coalesced", row=_ROW, level=APPROXIMATE)
@patch(f"{_FUNCTIONAL}:reduce_scatter_single", row=_ROW, level=APPROXIMATE, since="2.13")
@patch(f"{_FUNCTIONAL}:reduce_scatter_single_coalesced", row=_ROW, level=APPROXIMATE, since="2.13")
def functional_scattered(original: Original, *args: Any, **kwargs: Any) -> Any:
    """As :func:`functional_average`, where the dimension to cut is before the group."""
    return _functional(original, 3, args, kwargs)


def _functional(
    original: Original, place: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    op = kwargs.get("reduceOp", args[1] if len(args) > 1 else "")
    tensors = args[0] if args else kwargs.get("self", kwargs.get("inputs"))
    several = isinstance(tensors, list | tuple)
    first = tensors[0] if several and tensors else tensors
    if str(op).lower() != "avg" or not devices.is_hpu(getattr(first, "device", None)):
        return original(*args, **kwargs)
    from torch.distributed import _functional_collectives, distributed_c10d

    group = kwargs["group"] if "group" in kwargs else args[place]
    name = _functional_collectives._resolve_group_name(group, kwargs.get("tag", ""))
    size = distributed_c10d._get_group_size_by_name(name)
    if "reduceOp" in kwargs:
        kwargs["reduceOp"] = "sum"
    else:
        args = (args[0], "sum", *args[2:])
    found = original(*args, **kwargs)
    if several:
        return [one.div(size, rounding_mode=_rounding(one)) for one in found]
    return found.div(size, rounding_mode=_rounding(found))
