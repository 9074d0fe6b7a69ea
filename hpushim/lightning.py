"""Gaudi for Lightning and Fabric from 2.5.6 on, which know no ``hpu`` by themselves.

``Trainer(accelerator=HPUAccelerator(), devices=8)``, ``Fabric(accelerator=HPUAccelerator())``: one device, or DDP over hccl with
one process a device. Needs nothing but Gaudi's software, Lightning and this file; no call of CUDA is patched. The same for
``lightning``, ``pytorch_lightning`` and ``lightning_fabric``. Not covered: FSDP, DeepSpeed and tensor-parallel strategies.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

from hpushim.errors import HpushimError

# Each tree of Lightning's: the module with CUDAAccelerator, the one with the connector, its class, the one with DDPStrategy.
_TREES = (
    ("lightning.pytorch", "trainer.connectors.accelerator_connector", "_AcceleratorConnector"),
    ("lightning.fabric", "connector", "_Connector"),
    ("pytorch_lightning", "trainer.connectors.accelerator_connector", "_AcceleratorConnector"),
    ("lightning_fabric", "connector", "_Connector"),
)
_HALVES = {"16-mixed": "bf16-mixed", "16-true": "bf16-true"}
_PRECISION = ("_precision_flag", "_precision_input")
_STRATEGIES = ("SingleDevice", "DDP")
_AVERAGES = ("avg", "mean")


def HPUAccelerator() -> Any:
    """A Gaudi accelerator for ``Trainer`` and ``Fabric``. Raises HpushimError where Lightning is not installed."""
    importlib.import_module("habana_frameworks.torch.core")
    return _accelerator_class()()


def accelerator(elsewhere: str = "auto") -> Any:
    """Gaudi's accelerator where a Gaudi is, on other machines the word ``elsewhere``."""
    try:
        importlib.import_module("habana_frameworks.torch.core")
    except ImportError:
        return elsewhere
    return HPUAccelerator() if _is_available() else elsewhere


def accelerator_name(elsewhere: str = "") -> str:
    """The word ``hpu``, which ``Trainer`` and ``Fabric`` understand from then on: the parser of LightningCLI takes words alone.

    Where ``elsewhere`` is given, that on machines without a Gaudi. Raises HpushimError where Lightning is not installed.
    """
    if elsewhere and accelerator(elsewhere) == elsewhere:
        return elsewhere
    HPUAccelerator()
    return "hpu"


@functools.cache
def _accelerator_class() -> type:
    """A class that every connector takes for the kind of accelerator that has a device of its own."""
    trees = [tree for tree in _TREES if _importable(tree[0])]
    if not trees:
        raise HpushimError(
            "neither lightning nor pytorch_lightning is installed; expected one of them beside hpushim.lightning; pip install lightning"
        )
    bases = []
    for package, connector, name in trees:
        bases.append(importlib.import_module(f"{package}.accelerators").CUDAAccelerator)
        _adapt(package, getattr(importlib.import_module(f"{package}.{connector}"), name))
    _mark_steps()
    return type("HPUAccelerator", tuple(dict.fromkeys(bases)), dict(_METHODS))


def _importable(package: str) -> bool:
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and package.startswith(error.name):
            return False
        raise
    return True


# -- the accelerator ------------------------------------------------------------------------


def _setup_device(self: Any, device: Any) -> None:
    import torch

    if device.type != "hpu":
        raise HpushimError(
            f"the accelerator is Gaudi, but the strategy's device is {device}; expected hpu"
        )
    rank = os.environ.get("LOCAL_RANK", "")
    if rank.isdigit():
        torch.hpu.set_device(int(rank))


def _parse_devices(devices: Any) -> int:
    """How many devices are meant by ``8``, ``"8"``, ``-1`` or ``[0]``; devices are not chosen by number."""
    if isinstance(devices, list | tuple):
        if list(devices) not in ([0], list(range(len(devices)))):
            raise HpushimError(
                f"devices={list(devices)}: a process sees one Gaudi device, as number 0; expected how many devices; give the number, "
                "and choose devices with HABANA_VISIBLE_MODULES"
            )
        return len(devices)
    number = int(devices)
    return _count() if number == -1 else number


def _count() -> int:
    import torch

    return int(torch.hpu.device_count())


def _is_available() -> bool:
    import torch

    return bool(torch.hpu.is_available())


def _parallel_devices(number: int) -> list[Any]:
    """The one device of each process."""
    import torch

    return [torch.device("hpu", 0)] * number


def _device_stats(self: Any, device: Any) -> dict[str, Any]:
    import torch

    return dict(torch.hpu.memory_stats(device))


_METHODS: dict[str, Any] = {
    "__module__": __name__,
    "__doc__": "A Gaudi device for each process.",
    "__reduce__": lambda self: (HPUAccelerator, ()),
    "setup_device": _setup_device,
    "setup": lambda self, trainer: None,
    "teardown": lambda self: None,
    "get_device_stats": _device_stats,
    "parse_devices": staticmethod(_parse_devices),
    "get_parallel_devices": staticmethod(_parallel_devices),
    "auto_device_count": staticmethod(_count),
    "is_available": staticmethod(_is_available),
    "name": staticmethod(lambda: "hpu"),
}


# -- what Lightning decides by the word "cuda" ------------------------------------------------


def _adapt(package: str, connector: Any) -> None:
    """Autocast for hpu, DDP without CUDA's stream and index, averages as sums; each for hpu alone."""
    _around(connector, "_check_and_init_precision", _precision)
    _around(connector, "_check_config_and_set_final_flags", _named)
    strategies = importlib.import_module(f"{package}.strategies")
    _around(strategies.Strategy, "backward", _backward)
    strategy = strategies.DDPStrategy
    for name in ("determine_ddp_device_ids", "_determine_ddp_device_ids"):
        if hasattr(strategy, name):
            _around(strategy, name, _device_ids)
    module = importlib.import_module(strategy.__module__)
    if hasattr(module, "_init_dist_connection"):
        _around(module, "_init_dist_connection", _connected)
    fabric = package.replace("pytorch_lightning", "lightning_fabric").replace(".pytorch", ".fabric")
    _around(importlib.import_module(f"{fabric}.utilities.distributed"), "_sync_ddp", _synchronised)


def _around(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Has ``replacement`` called with the function in front of its arguments; once."""
    original = getattr(owner, name)
    if getattr(original, "_hpushim", False):
        return

    @functools.wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    called._hpushim = True  # type: ignore[attr-defined]
    setattr(owner, name, called)


def _named(original: Callable[..., Any], connector: Any, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("accelerator") == "hpu":
        kwargs["accelerator"] = HPUAccelerator()
    return original(connector, *args, **kwargs)


def _precision(original: Callable[..., Any], connector: Any) -> Any:
    if connector.accelerator.name() != "hpu":
        return original(connector)
    kind = type(connector.strategy).__name__
    if not kind.startswith(_STRATEGIES):
        raise HpushimError(
            f"{kind} is not adapted to Gaudi; expected one device or DDP; use strategy='ddp', or start the script with `hpushim run` "
            'and accelerator="gpu"'
        )
    for flag in _PRECISION:
        value = getattr(connector, flag, None)
        if value in _HALVES:
            setattr(connector, flag, _HALVES[value])  # bfloat16 is the half precision of Gaudi
    found = original(connector)
    if getattr(found, "device", None) == "cuda":
        found.device = "hpu"
    return found


def _backward(original: Callable[..., Any], strategy: Any, *args: Any, **kwargs: Any) -> Any:
    """Lazy mode runs the gradients apart from the update."""
    result = original(strategy, *args, **kwargs)
    if strategy.root_device.type == "hpu":
        importlib.import_module("habana_frameworks.torch.core").mark_step()
    return result


def _device_ids(original: Callable[..., Any], strategy: Any) -> Any:
    return None if strategy.root_device.type == "hpu" else original(strategy)


def _connected(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The vendor's init_process_group takes no ``device_id``."""
    if str(kwargs.get("device_id", "")).startswith("hpu"):
        kwargs.pop("device_id")
    return original(*args, **kwargs)


def _synchronised(
    original: Callable[..., Any], result: Any, group: Any = None, reduce_op: Any = None
) -> Any:
    """hccl sums, and has no average: ``sync_dist=True``."""
    import torch.distributed as dist

    average = reduce_op == dist.ReduceOp.AVG or str(reduce_op).lower() in _AVERAGES
    if not average or result.device.type != "hpu":
        return original(result, group, reduce_op)
    summed = original(result, group, "sum")
    size = dist.get_world_size(group)
    return summed.div_(size, rounding_mode=None if summed.is_floating_point() else "trunc")


@functools.cache
def _mark_steps() -> None:
    """Lightning calls the optimizers itself; lazy mode runs what it has gathered where a step ends."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    core = importlib.import_module("habana_frameworks.torch.core")

    def mark(*unused: Any) -> None:
        core.mark_step()

    register_optimizer_step_post_hook(mark)
