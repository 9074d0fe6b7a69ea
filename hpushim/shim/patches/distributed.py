"""Distributed runs: NCCL in every spelling is HCCL, and wrappers take the one device of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim import callers
from hpushim.shim import devices, log, policy, vendor
from hpushim.shim.patch import APPROXIMATE, ERROR, EXACT, MISSING, WARN, patch
from hpushim.shim.patches import environment

Original = Callable[..., Any]

_C10D = "torch.distributed.distributed_c10d"
_requested_nccl = False
_COMPRESSING = ("fp16_compress_hook", "bf16_compress_hook", "fp16_compress")
# Of new_group; torch itself gives the last one to every group, as a name for messages.
_NOT_IN_HCCL = ("use_local_synchronization", "device_id", "group_desc")


def backend_text(backend: str) -> str:
    """``nccl`` to ``hccl``, ``cpu:gloo,cuda:nccl`` to ``cpu:gloo,hpu:hccl``; any other backend as it is."""
    pairs = [pair.strip().partition(":") for pair in backend.split(",")]
    if not any("nccl" in (first.lower(), last.lower()) for first, _, last in pairs):
        return backend
    mapped = []
    for device, colon, name in pairs:
        if colon:
            mapped.append(f"{devices.text(device.lower())}:{_named(name)}")
        else:
            mapped.append(_named(device))
    return ",".join(mapped)


def _named(name: str) -> str:
    return "hccl" if name.lower() == "nccl" else name


def translated(backend: Any) -> Any:
    """The backend argument of a torch call; remembers that NCCL was requested and makes HCCL known."""
    global _requested_nccl
    if backend is None:
        vendor.register_hccl()
        return None
    if not isinstance(backend, str):
        return backend
    mapped = backend_text(backend)
    if mapped == str(backend):
        return backend
    _requested_nccl = True
    environment.warn_of_nccl()
    vendor.register_hccl()
    return mapped


@patch(f"{_C10D}:init_process_group", public="torch.distributed", level=EXACT)
def init_process_group(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Only the backend is translated; init_method, a URL, is never looked at."""
    if args:
        args = (translated(args[0]), *args[1:])
    else:
        kwargs["backend"] = translated(kwargs.get("backend"))
    if kwargs.get("device_id") is not None:
        # HCCL binds a process to its device by module id; an eager binding by index has no counterpart.
        devices.choose_device_of_rank()
        kwargs["device_id"] = None
        log.note(
            "HPU301",
            "hpushim drops init_process_group(device_id=): HCCL uses the device of the local rank",
        )
    _drop_nccl_options(kwargs)
    return original(*args, **kwargs)


@patch(
    f"{_C10D}:new_group",
    f"{_C10D}:split_group",
    public="torch.distributed",
    level=APPROXIMATE,
    optional=True,
)
def new_group(original: Original, *args: Any, **kwargs: Any) -> Any:
    """``new_group(backend="nccl")`` in whatever position, and without NCCL's options."""
    if isinstance(kwargs.get("backend"), str):
        kwargs["backend"] = translated(kwargs["backend"])
    args = tuple(translated(a) if isinstance(a, str) and a.lower() == "nccl" else a for a in args)
    # torch times and logs these functions through a decorator, whose frame is no caller's.
    caller = callers.outside(
        "hpushim", "functools", "contextlib", _C10D, "torch.distributed.c10d_logger"
    )
    if caller.partition(".")[0] != "torch":
        _drop_group_arguments(args, kwargs)
    kwargs.pop("device_id", None)
    _drop_nccl_options(kwargs)
    return original(*args, **kwargs)


def _drop_group_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Leaves out what the Gaudi software does not take; refused where the other ranks would wait for this call."""
    import torch.distributed as dist

    ranks = args[0] if args else kwargs.get("ranks")
    part = ranks is not None and len(ranks) < dist.get_world_size()
    if kwargs.get("use_local_synchronization") and part:
        log.refuse(
            "HPU301",
            "new_group(use_local_synchronization=True) with a subset of ranks: on HPU every rank must call new_group",
            "leave the argument out and call new_group with the same ranks in every process",
        )
    for name in _NOT_IN_HCCL:
        if kwargs.pop(name, None):
            log.note(
                "HPU301", f"hpushim drops new_group({name}=): the Gaudi software does not accept it"
            )


def _drop_nccl_options(kwargs: dict[str, Any]) -> None:
    options = kwargs.get("pg_options")
    if options is not None and "NCCL" in type(options).__qualname__:
        log.warn("HPU304", "hpushim drops NCCL process group options: HCCL has no counterpart")
        kwargs["pg_options"] = None


class ProcessGroupNCCL:
    """Is where a CUDA build has NCCL's process group: its options can be filled in, and are dropped."""

    class Options:
        """Takes any field; the shim drops it with a warning where a group is made."""

        def __init__(self, *args: Any, **fields: Any) -> None:
            self.config = type("Config", (), {})()
            self.__dict__.update(fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        log.refuse(
            "HPU304",
            "ProcessGroupNCCL belongs to CUDA builds of torch",
            "use torch.distributed.init_process_group('hccl')",
        )


@patch(
    f"{_C10D}:ProcessGroupNCCL",
    "torch.distributed:ProcessGroupNCCL",
    how="value",
    public="torch.distributed",
    level=WARN,
)
def process_group_nccl(current: Any) -> Any:
    """A substitute whose Options can be made, so that ``pg_options`` reaches new_group, which drops it."""
    return ProcessGroupNCCL if current is MISSING else current


@patch(f"{_C10D}:new_subgroups", public="torch.distributed", level=EXACT)
def new_subgroups(original: Original, group_size: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Without a size a subgroup is a machine: torch would count CUDA devices."""
    if group_size is None:
        import torch

        group_size = min(torch.hpu.device_count(), torch.distributed.get_world_size())
    return original(group_size, *args, **kwargs)


@patch(
    f"{_C10D}:get_backend",
    f"{_C10D}:get_backend_config",
    row="torch.distributed.get_backend",
    level=APPROXIMATE,
)
def get_backend(original: Original, *args: Any, **kwargs: Any) -> Any:
    """``"nccl"`` to code that requested NCCL, ``"cuda:nccl"`` to code that did so by device, so that its comparisons hold; the group is HCCL."""
    backend = original(*args, **kwargs)
    if "hccl" in backend and _requested_nccl and policy.answers_yes(_C10D):
        return type(backend)(backend.replace("hpu:", "cuda:").replace("hccl", "nccl"))
    return backend


@patch(f"{_C10D}:is_nccl_available", public="torch.distributed", level=APPROXIMATE)
def is_nccl_available(original: Original) -> bool:
    """True for code that may request NCCL: it gets HCCL."""
    return policy.answers_yes(_C10D)


@patch(f"{_C10D}:is_backend_available", public="torch.distributed", level=APPROXIMATE)
def is_backend_available(original: Original, backend: str) -> bool:
    """NCCL is available as HCCL."""
    if backend_text(str(backend)) != str(backend):
        return True
    return bool(original(backend))


@patch(f"{_C10D}:barrier", f"{_C10D}:monitored_barrier", public="torch.distributed", level=EXACT)
def barrier(original: Original, *args: Any, **kwargs: Any) -> Any:
    """``barrier(device_ids=[rank])``: there is one device, so none is named."""
    if kwargs.get("device_ids") is not None:
        kwargs["device_ids"] = None
    return original(*args, **kwargs)


@patch(
    "torch.nn.parallel.distributed:DistributedDataParallel.__init__",
    row="torch.nn.parallel.DistributedDataParallel",
    level=EXACT,
)
def ddp_init(
    original: Original, self: Any, module: Any, device_ids: Any = None, output_device: Any = None,
    *args: Any, **kwargs: Any,
) -> None:  # fmt: skip
    """``device_ids=[rank]`` names the one device that the module is on already, and has inputs moved to it."""
    used = next((p.device for p in module.parameters() if devices.is_hpu(p.device)), None)
    moves = used is not None and bool(device_ids)
    if used is not None:
        for named in (*(device_ids or ()), output_device):
            devices.report_requested(named)
        device_ids = output_device = None
        kwargs["process_group"] = _group_for_devices(kwargs.get("process_group"))
    original(self, module, device_ids, output_device, *args, **kwargs)
    if (
        moves and used is not None
    ):  # read by forward alone; a copy on a stream of its own gains nothing here
        self.device_ids, self.use_side_stream_for_tensor_copies = [used.index or 0], False


def _group_for_devices(group: Any) -> Any:
    """The group that a model on the device is trained in: beside gloo's, which carries CPU tensors only, one of HCCL's."""
    import torch.distributed as dist

    world = group is None or group is dist.group.WORLD
    if not dist.is_initialized() or dist.get_backend(group) != "gloo":
        return group
    if not world:
        log.refuse(
            "HPU313",
            "DistributedDataParallel over a gloo group of some ranks: gloo carries CPU tensors only, the model is on the device",
            'make the group with new_group(ranks, backend="nccl")',
        )
    log.warn(
        "HPU313",
        "gloo carries CPU tensors only, and the model is on the device: DistributedDataParallel uses an HCCL group",
    )
    vendor.register_hccl()
    return dist.new_group(backend="hccl")


@patch(
    "torch.nn.parallel.distributed:DistributedDataParallel.register_comm_hook",
    "torch.nn.parallel.distributed:DistributedDataParallel._register_builtin_comm_hook",
    row="torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook",
    level=ERROR,
)
def comm_hook(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Hooks that compress gradients to 16 bits for NCCL are refused; any other runs."""
    for hook in (*args, *kwargs.values()):
        # The state of a hook is among the arguments too; of a process group, `name` is a method.
        names = (getattr(hook, "__name__", ""), getattr(hook, "name", ""))
        name = next((one for one in names if isinstance(one, str) and one), "")
        if name.lower() in _COMPRESSING and any(
            devices.is_hpu(p.device) for p in self.parameters()
        ):
            log.refuse(
                "HPU313",
                f"the communication hook {name} is not supported over HCCL",
                "train under bf16 autocast, or reduce without a hook",
            )
    return original(self, *args, **kwargs)


@patch(
    "torch.nn.parallel.data_parallel:DataParallel.__init__",
    row="torch.nn.DataParallel",
    level=WARN,
)
def data_parallel_init(
    original: Original, self: Any, module: Any, device_ids: Any = None, output_device: Any = None,
    *args: Any, **kwargs: Any,
) -> None:  # fmt: skip
    """On one device it only wraps the module; over several it cannot work, since a process holds one device."""
    if device_ids is not None and len(set(device_ids)) > 1:
        log.refuse(
            "HPU308",
            f"DataParallel over devices {list(device_ids)}: a process holds one Gaudi device",
            "start one process per device with torchrun and wrap the model in DistributedDataParallel",
        )
    for used in (*(device_ids or ()), output_device):
        devices.report_requested(used)
    if device_ids is None:
        log.warn(
            "HPU308",
            "DataParallel runs on the one device of this process; use DistributedDataParallel",
        )
    original(self, module, [0], 0, *args, **kwargs)


@patch("torch.nn.parallel.data_parallel:DataParallel.forward", level=EXACT)
def data_parallel_forward(original: Original, self: Any, *inputs: Any, **kwargs: Any) -> Any:
    """Moves the inputs to the one device, as scattering to one device does, and calls the module."""
    if not any(devices.is_hpu(parameter.device) for parameter in self.module.parameters()):
        return original(self, *inputs, **kwargs)
    import torch
    from torch.utils._pytree import tree_map_only

    inputs, kwargs = tree_map_only(torch.Tensor, lambda x: x.to(devices.INDEXED), (inputs, kwargs))
    return self.module(*inputs, **kwargs)


@patch(
    "torch.distributed.device_mesh:init_device_mesh",
    "torch.distributed.device_mesh:DeviceMesh.__init__",
    public="torch.distributed",
    level=EXACT,
)
def device_mesh(original: Original, *args: Any, **kwargs: Any) -> Any:
    """``init_device_mesh("cuda", …)`` is a mesh of HPUs."""
    args = tuple(devices.text(a) if isinstance(a, str) else a for a in args)
    if isinstance(kwargs.get("device_type"), str):
        kwargs["device_type"] = devices.text(kwargs["device_type"])
    return original(*args, **kwargs)


@patch(
    "torch.distributed.fsdp.fully_sharded_data_parallel:FullyShardedDataParallel.__init__",
    row="torch.distributed.fsdp.FullyShardedDataParallel",
    level=EXACT,
)
def fsdp_init(original: Original, self: Any, *args: Any, **kwargs: Any) -> None:
    """``device_id=rank`` or ``torch.cuda.current_device()`` is the one device."""
    if kwargs.get("device_id") is not None:
        devices.report_requested(kwargs["device_id"])
        kwargs["device_id"] = devices.target()
    original(self, *args, **kwargs)
