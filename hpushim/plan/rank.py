"""Running one rank: torch's fake process group in place of the real one, and a record of every collective.

The fake group sends nothing: what a collective would have brought stays as it was, so losses are no losses of the real run. What is
requested from each collective, how large it is and who takes part is real. torch.compile is left out, so that each operator is seen.
With ``fake``, nothing is computed either (:mod:`~hpushim.plan.fake`).
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from hpushim.plan.fake import Fake, tensors_of
from hpushim.plan.observed import Collective, Observed, Overrun, Parameters

#: Operators of ``c10d``, by the collective; where the whole is: the argument, counted from 0.
_OPERATORS = {
    "allreduce_": ("all_reduce", 0),
    "allreduce_coalesced_": ("all_reduce_coalesced", 0),
    "reduce_": ("reduce", 0),
    "broadcast_": ("broadcast", 0),
    "allgather_": ("all_gather", 0),
    "_allgather_base_": ("all_gather_into_tensor", 0),
    "allgather_coalesced_": ("all_gather_coalesced", 0),
    "allgather_into_tensor_coalesced_": ("all_gather_into_tensor", 0),
    "gather_": ("gather", 0),
    "reduce_scatter_": ("reduce_scatter", 1),
    "_reduce_scatter_base_": ("reduce_scatter_tensor", 1),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter_tensor", 1),
    "scatter_": ("scatter", 1),
    "alltoall_": ("all_to_all", 1),
    "alltoall_base_": ("all_to_all_single", 1),
    "send": ("send", 0),
    "recv_": ("recv", 0),
}
#: Functional ones, which name their group: the collective, and whether the whole is the argument times the ranks.
_FUNCTIONAL = {
    "all_reduce": ("all_reduce", False),
    "all_reduce_": ("all_reduce", False),
    "all_reduce_coalesced": ("all_reduce_coalesced", False),
    "all_gather_into_tensor": ("all_gather_into_tensor", True),
    "all_gather_into_tensor_out": ("all_gather_into_tensor", True),
    "all_gather_into_tensor_coalesced": ("all_gather_into_tensor", True),
    "reduce_scatter_tensor": ("reduce_scatter_tensor", False),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter_tensor", False),
    "all_to_all_single": ("all_to_all_single", False),
    "broadcast": ("broadcast", False),
}
_SPACES = ("c10d", "_c10d_functional")


class Enough(SystemExit):
    """As many steps as were requested are over."""


def environment(world: int, per_server: int) -> dict[str, str]:
    """What a launcher sets for rank 0 of ``world`` ranks on servers of so many devices."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(min(world, per_server)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


class Rank:
    """Rank 0 of a world that is not there.

    ``device`` gives the emulated device, its C++ extension. The next parameter is the bytes of its memory, to report where they would not do; ``fake``: compute nothing.
    """

    def __init__(
        self,
        world: int,
        steps: int,
        *,
        device: Callable[[], Any],
        memory: int = 0,
        fake: bool = False,
    ) -> None:
        self.observed = Observed(world)
        self._steps = steps
        self._memory = memory
        self._fake = Fake() if fake else None
        self._device = device
        self._native: Any = None
        self._first: int | None = None  # the optimizer whose steps are counted
        self._optimizers: dict[int, Any] = {}
        self._leave: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Puts the fake group in the real one's place and starts to record. Imports torch."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        importlib.import_module("torch.testing._internal.distributed.fake_pg")
        self._fake_groups(importlib.import_module("torch.distributed.distributed_c10d"))
        self._fake_hook(torch.nn.parallel.DistributedDataParallel)
        register_optimizer_step_post_hook(self._stepped)
        self._native = self._device()
        self._native.watch_for_overrun(self._memory)
        if self._fake is not None:
            self._fake.begin(self._native)
        mode = _recorder(self._record, self._fake)
        mode.__enter__()
        self._leave = lambda: mode.__exit__(None, None, None)

    def end(self) -> Observed:
        """Stops recording and adds up what the device and the optimizers hold."""
        import torch

        self._leave()
        self.observed.parameters = _parameters(self._optimizers.values())
        hpu = getattr(torch, "hpu", None)
        if hpu is not None:
            self.observed.peak = int(hpu.max_memory_allocated())
        if self._native is not None:
            line, asked, in_use = self._native.overrun()
            self.observed.overrun = Overrun(line, asked, in_use) if line else None
            self.observed.left_out = self._fake.end() if self._fake is not None else None
        return self.observed

    def _fake_groups(self, distributed: Any) -> None:
        fake = importlib.import_module("torch.testing._internal.distributed.fake_pg")
        init, new = distributed.init_process_group, distributed.new_group

        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            self.observed.began = True
            options = {"timeout": kwargs["timeout"]} if kwargs.get("timeout") else {}
            world = self.observed.world
            return init("fake", store=fake.FakeStore(), rank=0, world_size=world, **options)

        def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
            return new(ranks, backend="fake")

        def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
            object_list[:] = [obj] * len(object_list)

        def gather_object(obj: Any, object_gather_list: Any = None, *_: Any, **__: Any) -> None:
            if object_gather_list is not None:
                object_gather_list[:] = [obj] * len(object_gather_list)

        def scatter_object_list(output: list[Any], given: Any = None, *_: Any, **__: Any) -> None:
            output[0] = given[0] if given else None

        def broadcast_object_list(object_list: list[Any], *_: Any, **__: Any) -> None:
            """Rank 0 has them; from another source nothing can come."""

        for function in (init_process_group, new_group, all_gather_object, gather_object,
                         scatter_object_list, broadcast_object_list):  # fmt: skip
            self._put_in_place(function, distributed)

    @staticmethod
    def _put_in_place(function: Any, owner: Any) -> None:
        """In every module that holds the original: DeviceMesh, say, has had it by name since torch was imported."""
        name = function.__name__
        original = getattr(owner, name)
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is original:
                setattr(module, name, function)

    def _fake_hook(self, parallel: Any) -> None:
        """DDP's own reduction queries the group for a result, which the fake one has not; a hook that does the same gives one."""
        import torch
        import torch.distributed as dist

        original, register = parallel.__init__, parallel.register_comm_hook

        def reducing(group: Any) -> Callable[[Any, Any], Any]:
            def reduce(state: Any, bucket: Any) -> Any:
                buffer = bucket.buffer()
                dist.all_reduce(buffer.div_(dist.get_world_size(group)), group=group)
                done: Any = torch.futures.Future()
                done.set_result(buffer)
                return done

            reduce.__annotations__.clear()  # which DDP compares, and which are texts here
            return reduce

        def __init__(module: Any, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            self.observed.replicated = True
            register(module, None, reducing(module.process_group))

        def register_comm_hook(module: Any, state: object, hook: Any) -> None:
            name = getattr(hook, "__name__", "a hook")
            self.observed.notes.append(
                f"the communication hook {name} is not applied: gradients are counted uncompressed"
            )

        parallel.__init__ = __init__
        parallel.register_comm_hook = register_comm_hook

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._optimizers[id(optimizer)] = optimizer
        if self._first is None:
            self._first = id(optimizer)
        if id(optimizer) != self._first:
            return
        self.observed.steps += 1
        if self.observed.steps >= self._steps:
            raise Enough(0)

    def _record(self, space: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found = _of_group(name, args) if space == "c10d" else _functional(name, args, kwargs)
        if found is None:
            return
        collective, whole, factor, reduction, group = found
        tensors = list(tensors_of(whole))
        ranks = tuple(importlib.import_module("torch.distributed").get_process_group_ranks(group))
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        self.observed.collectives.append(
            Collective(
                collective,
                size * (len(ranks) if factor else 1),
                tuple(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors})),
                reduction,
                ranks,
                self.observed.steps,
            )
        )


def _recorder(
    record: Callable[[str, str, tuple[Any, ...], dict[str, Any]], None], fake: Fake | None
) -> Any:
    """A mode of torch's dispatcher that reports operators that communicate, and hands on all but what ``fake`` answers."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if func.namespace in _SPACES:
                record(func.namespace, func._opname, args, kwargs)
            elif fake is not None and fake.answers(func, args, kwargs):
                return fake.answer(func, args, kwargs)
            return func(*args, **kwargs)

    return Recorder()


_Found = tuple[str, Any, bool, str, Any]


def _of_group(name: str, args: tuple[Any, ...]) -> _Found | None:
    """Collective, its whole, whether that counts once for each rank, reduction and group, of an operator on a group."""
    import torch

    known = _OPERATORS.get(name)
    if known is None:
        return None
    collective, whole = known
    group, reduction = None, ""
    for value in args:
        if not isinstance(value, torch.ScriptObject):
            continue
        kind = value._type().qualified_name()
        if kind.endswith("ProcessGroup"):
            group = torch.distributed.ProcessGroup.unbox(value)
        elif kind.endswith("ReduceOp"):
            reduction = _reduction(value)
    return None if group is None else (collective, args[whole], False, reduction, group)


def _reduction(boxed: Any) -> str:
    """The name of a reduce operation; "" where this torch does not name it."""
    from torch.distributed import ReduceOp

    if not boxed._has_method("op"):
        return ""
    return str(ReduceOp.RedOpType(boxed.op()).name)


def _functional(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Found | None:
    """The same of an operator of functional collectives, whose last argument is the name of its group."""
    from torch.distributed import distributed_c10d as distributed

    known = _FUNCTIONAL.get(name)
    if known is None:
        return None
    words = [value for value in (*args, *kwargs.values()) if isinstance(value, str)]
    reduction = words[0].upper() if len(words) > 1 else ""
    collective, factor = known
    return collective, args[0], factor, reduction, distributed._resolve_process_group(words[-1])


def _parameters(optimizers: Any) -> Parameters:
    """What the optimizers hold, each parameter once."""
    seen: dict[int, Any] = {}
    here = whole = gradients_here = gradients_whole = state_here = state_whole = largest = 0
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) in seen:
                    continue
                seen[id(parameter)] = parameter
                local, full = _sizes(parameter)
                here, whole, largest = here + local, whole + full, max(largest, full)
                if parameter.requires_grad:
                    gradients_here, gradients_whole = gradients_here + local, gradients_whole + full
                share = full / local if local else 1.0
                for value in optimizer.state.get(parameter, {}).values():
                    size = sum(_sizes(one)[0] for one in tensors_of(value))
                    state_here, state_whole = state_here + size, state_whole + round(size * share)
    return Parameters(
        here, whole, gradients_here, gradients_whole, state_here, state_whole, largest
    )


def _sizes(tensor: Any) -> tuple[int, int]:
    """Bytes on this rank and in all, of a tensor that may be one part of many."""
    width = tensor.element_size()
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    flat = getattr(tensor, "_unpadded_unsharded_size", None)  # of FullyShardedDataParallel
    full = flat.numel() if flat is not None else tensor.numel()
    return local.numel() * width, full * width
