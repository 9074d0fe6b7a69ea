"""``torch.cuda.comm``: sending among the devices of one process. With one device there is nothing to send, with more it is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.patch import ERROR, patch

Original = Callable[..., Any]

_COMM = "torch.nn.parallel.comm"
_ROW = "torch.cuda.comm"


def _refuse() -> None:
    log.refuse(
        "HPU121",
        "torch.cuda.comm sends among the devices of one process, and a process holds one Gaudi device",
        "start one process per device with torchrun and use torch.distributed",
    )


def _require_one(given: Sequence[Any] | None, **others: Any) -> None:
    """``[0]`` is the one device; several, all of them (None) and results given as ``out=`` are refused."""
    if given is None or len(given) != 1 or any(value is not None for value in others.values()):
        _refuse()
    else:
        devices.mapped(given[0])


@patch(f"{_COMM}:broadcast", f"{_COMM}:scatter", row=_ROW, level=ERROR)
def to_each(
    original: Original, tensor: Any, devices_given: Any = None, *args: Any, out: Any = None, **kwargs: Any
) -> Any:  # fmt: skip
    """One device gets the whole tensor."""
    _require_one(kwargs.pop("devices", devices_given), out=out)
    return (tensor.to(devices.INDEXED),)


@patch(f"{_COMM}:broadcast_coalesced", row=_ROW, level=ERROR)
def broadcast_coalesced(
    original: Original, tensors: Any, devices_given: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """One device gets them all."""
    _require_one(kwargs.pop("devices", devices_given))
    return [[tensor.to(devices.INDEXED) for tensor in tensors]]


@patch(f"{_COMM}:reduce_add", f"{_COMM}:reduce_add_coalesced", row=_ROW, level=ERROR)
def reduce_add(original: Original, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """The sum over one device is what it holds."""
    _require_one(inputs)
    return inputs[0]


@patch(f"{_COMM}:gather", row=_ROW, level=ERROR)
def gather(
    original: Original, tensors: Any, dim: int = 0, destination: Any = None, *, out: Any = None
) -> Any:
    """What one device holds; ``destination`` -1 or ``cpu`` takes it to the host."""
    import torch

    _require_one(tensors, out=out)
    to_host = destination == -1 or str(destination) == "cpu"
    return torch.cat(list(tensors), dim).to("cpu" if to_host else devices.INDEXED)
