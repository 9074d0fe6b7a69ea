"""Environment variables of CUDA and NCCL, and what is compiled for CUDA."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.mechanisms.in_place import Undo
from hpushim.shim.patch import ERROR, WARN, patch

Original = Callable[..., Any]

_WORDS = ("CUDA", "CUDNN", "CUBLAS", "TF32")
_REPORTED = "HPUSHIM_TOLD"
# Taken up above, or by policy.
_HANDLED = {"CUDA_VISIBLE_DEVICES"}
# torchrun gives it to every worker, whatever the backend: not a wish of the user's.
_BY_TORCHRUN = {"TORCH_NCCL_ASYNC_ERROR_HANDLING"}


@patch("torch", how="hook", row="CUDA_VISIBLE_DEVICES", level=WARN)
def visible_devices() -> Undo | None:
    """The devices of ``CUDA_VISIBLE_DEVICES`` are the modules that the process may use, unless Gaudi's variable says so."""
    return devices.show_chosen_devices()


def warn_of_nccl() -> None:
    """Names the NCCL variables that are set, with what HCCL has in their place."""
    launched = _BY_TORCHRUN if "TORCHELASTIC_RUN_ID" in os.environ else set()
    _report(name for name in os.environ if "NCCL" in name and name not in launched)


@patch("torch", how="hook", row="CUDA_VISIBLE_DEVICES", level=WARN)
def without_effect() -> None:
    """Names the variables of CUDA that are set and mean nothing here; those of NCCL when a process group is made."""
    # Only a word that NVIDIA's names have: the matrix, which takes longer to read than the shim to start, decides.
    _report(name for name in os.environ if any(word in name for word in _WORDS))


def _report(names: Iterable[str]) -> None:
    found = sorted(set(names) - _HANDLED)
    if not found or os.environ.get(_REPORTED, "").split(",") == found:
        return
    from hpushim import matrix

    table = matrix.load()
    texts: dict[str, list[str]] = {}
    for name in found:
        row = table.unread(name)
        if row is not None and row.rule:
            instead = f" ({row.target} comes nearest)" if row.target else ""
            texts.setdefault(row.rule, []).append(f"{name}{instead}")
    for code, lines in texts.items():
        log.warn(code, f"without effect on Gaudi: {', '.join(lines)}")
    # Children say it no more.
    os.environ[_REPORTED] = ",".join(found)


@patch(
    "torch.utils.cpp_extension:CUDAExtension",
    "torch.utils.cpp_extension:load",
    "torch.utils.cpp_extension:load_inline",
    level=ERROR,
)
def cuda_sources(original: Original, *args: Any, **kwargs: Any) -> Any:
    """C++ builds as ever; CUDA sources do not."""
    name = str(kwargs.get("name", args[0] if args else ""))
    sources = kwargs.get("sources", args[1] if len(args) > 1 else ())
    listed = [sources] if isinstance(sources, str) else list(sources or ())
    wants = any(str(source).endswith((".cu", ".cuh")) for source in listed)
    if wants or kwargs.get("cuda_sources") or kwargs.get("with_cuda"):
        log.refuse(
            "HPU711",
            f"the extension {name!r} has CUDA sources",
            "write it with torch operators and torch.compile, or as a TPC kernel",
        )
    return original(*args, **kwargs)
