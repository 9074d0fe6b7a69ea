"""What ``"cuda"``, ``"cuda:3"`` and ``0`` mean here: the one HPU that this process holds.

A Gaudi process sees exactly one device, ``hpu:0``; which device that is, the module id decides. So every index
becomes 0. Only device arguments come through here: no other string is ever looked at.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from hpushim.shim import log
from hpushim.shim.mechanisms.in_place import Undo

MODULE_ID = "HLS_MODULE_ID"
MODULES = "HABANA_VISIBLE_MODULES"
DEVICE = "hpu"
INDEXED = "hpu:0"

F = TypeVar("F", bound=Callable[..., Any])


def target() -> Any:
    """``torch.device("hpu", 0)``."""
    import torch

    return torch.device(INDEXED)


def is_cuda_text(text: str) -> bool:
    """Whether the text is a CUDA device and nothing else: ``cuda`` or ``cuda:<number>``."""
    return text == "cuda" or (text.startswith("cuda:") and text[5:].isdigit())


def text(device: str) -> str:
    """``"cuda"`` to ``"hpu"``, ``"cuda:N"`` to ``"hpu:0"``; any other text as it is."""
    if device == "cuda":
        return DEVICE
    if not is_cuda_text(device):
        return device
    if device != "cuda:0":
        report_device(int(device[5:]))
    return INDEXED


def mapped(device: Any) -> Any:
    """The device argument of a torch call, on this machine: text, ``torch.device``, index or None."""
    if device is None:
        return None
    if isinstance(device, str):
        return text(device)
    if isinstance(device, bool):
        return device
    if isinstance(device, int):
        if device > 0:
            report_device(device)
        return INDEXED if device >= 0 else device
    if getattr(device, "type", None) == "cuda":
        if device.index:
            report_device(device.index)
        return INDEXED if device.index is not None else DEVICE
    return device


def is_hpu(device: Any) -> bool:
    """Whether a ``torch.device`` is the HPU."""
    return getattr(device, "type", None) == DEVICE


def index_of(device: Any) -> int | None:
    """The number in ``2``, ``"cuda:2"`` or a device; None where none is given."""
    if device is None or isinstance(device, int):
        return device
    if isinstance(device, str):
        return int(device[5:]) if is_cuda_text(device) and ":" in device else None
    return getattr(device, "index", None)


def report_device(index: int, *, placing: bool = True) -> None:
    """Says once that a device other than the first is the one device of this process, or that there is no such device.

    With ``placing`` false, for what only requests from a device, the second alone. The device of its own rank is what a launcher
    means a process to request, so nothing is said of that.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or torch.compiler.is_compiling() or os.environ.get("LOCAL_RANK") == str(index):
        return
    if not log.is_first("device", str(index), str(placing)):
        return
    count = int(torch.hpu.device_count())
    if index >= count:
        counted = f"{count} device is" if count == 1 else f"{count} devices are"
        log.warn(
            "HPU121",
            f"cuda:{index} runs on hpu:0, the one device of this process; only {counted} here, so CUDA would raise "
            "an invalid device ordinal",
        )
    elif placing:
        log.note(
            "HPU121",
            f"cuda:{index} runs on hpu:0, like cuda:0, since a process uses one Gaudi device; "
            "start one process per device with torchrun",
        )


def report_requested(device: Any) -> None:
    """The same for ``2``, ``"cuda:2"`` or a device that a call of ``torch.cuda`` only requests from."""
    index = index_of(device)
    if isinstance(index, int) and index > 0:
        report_device(index, placing=False)


_DEVICE_ARGUMENTS = ("device", "peer_device")


def of_device(replacement: F) -> F:
    """For the replacement of what ``torch.cuda`` answers of one device, named by its argument ``device``: the one device answers for all.

    A number that no device here has is reported, and a device that is none of CUDA's is the ValueError that torch gives.
    """
    code = replacement.__code__
    names = code.co_varnames[: code.co_argcount]
    places = {names.index(name): name for name in _DEVICE_ARGUMENTS if name in names}
    assert places, f"{replacement} takes no device"

    @functools.wraps(replacement)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for place, name in places.items():
            _check_requested(args[place] if place < len(args) else kwargs.get(name))
        return replacement(*args, **kwargs)

    return checked  # type: ignore[return-value]


def _check_requested(device: Any) -> None:
    if device is None:
        return
    kind = device.partition(":")[0] if isinstance(device, str) else getattr(device, "type", "cuda")
    if kind in ("cpu", "meta"):
        raise ValueError(f"Expected a cuda device, but got: {device}")
    report_requested(device)


_chosen: list[str] = []


def show_chosen_devices() -> Undo | None:
    """Says ``CUDA_VISIBLE_DEVICES`` in Gaudi's variable, unless that is set; returns how to undo it.

    The Gaudi software reads its variable once, so this comes before its import where the shim is what imports it;
    where somebody else has imported it, that is said. A second call changes nothing.
    """
    numbers = os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "")
    if MODULES not in os.environ and all(number.isdigit() for number in numbers.split(",")):
        os.environ[MODULES] = numbers
        _chosen[:] = [numbers]
        late = "habana_frameworks.torch" in sys.modules and "hpushim.emulator" not in sys.modules
        log.note(
            "HPU804",
            f"hpushim sets {MODULES}={numbers} from CUDA_VISIBLE_DEVICES"
            + (", possibly too late, since the Gaudi software is already imported" if late else ""),
        )
    if not _chosen or os.environ.get(MODULES) != _chosen[0]:
        return None

    def undo() -> bool:
        if not _chosen or os.environ.get(MODULES) != _chosen.pop():
            return False
        del os.environ[MODULES]
        return True

    return undo


def choose_device(module: int) -> None:
    """Says which device this process means, as a launcher does; the index stays 0.

    The bridge binds a process to a module id once and keeps it; a later, different choice is only noted.
    """
    import torch

    chosen = os.environ.setdefault(MODULE_ID, str(module))
    if chosen != str(module):
        log.note(
            "HPU312", f"this process uses device {chosen}; selecting device {module} has no effect"
        )
        return
    try:
        torch.hpu.set_device(module)
    except RuntimeError as error:
        log.warn("HPU312", f"device {module} cannot be selected: {error}")


def choose_device_of_rank() -> None:
    """Chooses the device that the launcher meant for this process, if it said so (``LOCAL_RANK``)."""
    rank = os.environ.get("LOCAL_RANK", "")
    if rank.isdigit():
        choose_device(int(rank))
