"""Environment variables of CUDA and NCCL, and what is compiled for CUDA."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hpushim.shim import log
from hpushim.shim.in_place import Undo
from hpushim.shim.patch import ERROR, WARN, patch

Original = Callable[..., Any]

_MODULES = "HABANA_VISIBLE_MODULES"


@patch("torch", how="hook", row="CUDA_VISIBLE_DEVICES", level=WARN)
def visible_devices() -> Undo | None:
    """The cards of ``CUDA_VISIBLE_DEVICES`` are the modules that the process may use, unless Gaudi's variable says so."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "")
    numbers = chosen.split(",")
    if _MODULES in os.environ or not all(number.isdigit() for number in numbers):
        return None
    os.environ[_MODULES] = chosen
    log.note("HPU804", f"CUDA_VISIBLE_DEVICES={chosen} is taken as {_MODULES}={chosen}")

    def undo() -> bool:
        if os.environ.get(_MODULES) != chosen:
            return False
        del os.environ[_MODULES]
        return True

    return undo


def warn_of_nccl() -> None:
    """Names the ``NCCL_…`` variables that are set: only NCCL reads them."""
    found = sorted(name for name in os.environ if name.startswith("NCCL_"))
    if found:
        log.warn(
            "HPU311", f"{', '.join(found)}: only NCCL reads these; HCCL has variables of its own"
        )


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
