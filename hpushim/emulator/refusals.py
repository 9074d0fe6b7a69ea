"""What the emulated device refuses under every policy, in its own words and with the matrix's code: sparse and
quantised tensors and, by release, generators (in the C++ device), DLPack, and memory shared between processes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hpushim import handover
from hpushim.emulator import device

# The rows that say so, by the subject of the refusal.
_ROWS = {
    "layout": "torch.sparse_coo_tensor",
    "quantised": "torch.quantize_per_tensor",
    "nested": "torch.nested.nested_tensor",
    "strides": "strides of results",
    "offset": "torch.Generator",
    "fork": "torch.multiprocessing.set_start_method",
    "sharing": "torch.multiprocessing.reductions.reduce_tensor",
    "dlpack": "torch.utils.dlpack.to_dlpack",
}


def install() -> None:
    """Give the device its codes, and torch's Python side the refusals that no operator makes."""
    codes = _codes()
    device.load().set_codes({subject: code for subject, code in codes.items() if code})
    _refuse_dlpack(_signed(codes["dlpack"]))
    _refuse_sharing(_signed(codes["sharing"]))


def _codes() -> dict[str, str]:
    from hpushim.emulator import profiles
    from hpushim.matrix import load
    from hpushim.model import Target

    rows = {subject: load().row(name) for subject, name in _ROWS.items()}
    codes = {subject: row.rule if row is not None else "" for subject, row in rows.items()}
    profile = profiles.current()
    here = Target(gaudi=profile.gaudi, stack=profile.release)
    if (row := load().row("torch.Generator")) and load().assess(row, here).status == "unsupported":
        codes["generator"] = row.rule
    return codes


def _signed(code: str) -> str:
    return f"emulated HPU, {code}" if code else "emulated HPU"


def _refuse_dlpack(signed: str) -> None:
    """torch has no DLPack device for hpu; nothing is known of Gaudi adding one."""
    import torch

    text = (
        f"torch has no DLPack device for hpu, and nothing is known of Gaudi adding one ({signed}); "
        "export x.cpu(), and move imported tensors with .to('hpu')"
    )
    tensor: Any = torch.Tensor
    tensor.__dlpack__ = _guarded(tensor.__dlpack__, BufferError, text)
    tensor.__dlpack_device__ = _guarded(tensor.__dlpack_device__, ValueError, text)
    torch.utils.dlpack.to_dlpack = _guarded(torch.utils.dlpack.to_dlpack, BufferError, text)


def _guarded(original: Callable[..., Any], error: type[Exception], text: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def guarded(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(getattr(tensor, "device", None), "type", "") == "hpu":
            raise error(text)
        return original(tensor, *args, **kwargs)

    return guarded


def _refuse_sharing(signed: str) -> None:
    """Sending a storage to another process: torch shares the memory of the host and of CUDA alone."""
    from multiprocessing.reduction import ForkingPickler

    import torch
    from torch.multiprocessing import reductions

    def reduce_storage(storage: Any) -> Any:
        if storage.device.type == "hpu":
            error = RuntimeError(
                f"a tensor on hpu was sent to another process, and processes cannot share a Gaudi's memory ({signed}); "
                "send tensor.cpu() and move it there, or train with one process per device and torch.distributed"
            )
            return handover.refuse(error)
        return reductions.reduce_storage(storage)

    ForkingPickler.register(torch.UntypedStorage, reduce_storage)
