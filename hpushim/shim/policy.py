"""Who is asking? Whether ``torch.cuda.is_available()`` says yes depends on the module that calls.

The user's own code gets True. A library that would pick kernels only NVIDIA hardware runs, or that looks for
Gaudi itself, gets the truth, and so does torch, which checks CUDA first and knows HPU as its accelerator. The
lists are the matrix's ``[policy]``; ``HPUSHIM_CUDA_AVAILABLE=1|0`` answers the same to everybody but torch.
"""

from __future__ import annotations

import functools
import os
import sys

from hpushim import callers, settings
from hpushim.shim import log

# While torch.compile reads a user's function it acts on the user's behalf.
_ON_BEHALF = ("torch._dynamo.variables", "torch._dynamo.symbolic_convert", "torch.jit")


def answers_yes(target_module: str = "torch.cuda") -> bool:
    """Whether the caller of the patched function of ``target_module`` should meet a CUDA device."""
    caller = callers.of_patched(target_module)
    if _is_torchs_own(caller):
        return False  # whatever was forced: torch would look for parts that only a CUDA build has
    forced = settings.read("HPUSHIM_CUDA_AVAILABLE")
    if forced != "auto":
        return forced == "1"
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return False  # the program was instructed to use no device
    return _answer(caller)


def _is_torchs_own(module: str) -> bool:
    return module.partition(".")[0] == "torch" and not module.startswith(_ON_BEHALF)


@functools.cache
def _answer(module: str) -> bool:
    return module.startswith(_ON_BEHALF) or is_users(module.partition(".")[0])


def is_users(package: str, *, silently: bool = False) -> bool:
    """Whether a top-level package counts as the user's code: it is on neither list of the policy."""
    if package in ("__main__", "__mp_main__") or not _is_mentioned(package):
        return True
    from hpushim import matrix

    policy = matrix.load().policy
    if package in policy.nvidia_only:
        if not silently:
            log.note(
                "HPU905",
                f"{package} sees no CUDA: its CUDA kernels cannot run on Gaudi",
            )
        return False
    return not any(_names(entry, package) for entry in policy.knows_hpu)


@functools.cache
def compares_devices(package: str) -> bool:
    """Whether the policy has a library's device comparisons rewritten, as those of the user's own files are."""
    if not _is_mentioned(package):
        return False
    from hpushim import matrix

    return any(_names(entry, package) for entry in matrix.load().policy.compares_devices)


def is_named(name: str) -> bool:
    """Whether the matrix's file has this very text in quotes: to parse it takes longer than most imports."""
    return f'"{name}"'.encode() in _matrix_text()


def _is_mentioned(package: str) -> bool:
    """Whether the matrix's file has a text that begins with this name, with or without a range of versions."""
    return f'"{package}'.encode() in _matrix_text()


@functools.cache
def _matrix_text() -> bytes:
    from hpushim.matrix import default_path

    return default_path().read_bytes()


def _names(entry: str, package: str) -> bool:
    """Whether an entry, a package with an optional range of versions, means the package that is here."""
    if not entry.startswith(package):
        return False
    from packaging.requirements import Requirement

    wanted = Requirement(entry)
    if wanted.name != package:
        return False
    version = _version(package) if wanted.specifier else None
    return version is None or wanted.specifier.contains(version, prereleases=True)


def _version(package: str) -> str | None:
    """The version of a loaded package; None when it says none anywhere."""
    import importlib.metadata

    said = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(said, str):
        return said
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
