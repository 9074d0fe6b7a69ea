"""The device as a library: found prebuilt or in the cache, else compiled once per torch, Python and source; loaded."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import shutil
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from hpushim.emulator import compiling
from hpushim.emulator.cache import (
    CACHE_REMEDY,
    build_lock,
    cache_dir,
    disk_error,
    drop_old,
    forget,
    hold,
    make_own_folder,
    mark,
)
from hpushim.emulator.compiling import SOURCES
from hpushim.emulator.trust import require_own
from hpushim.errors import EmulatorError

MODULE = "_hpushim_device"
PREBUILT = "_hpushim_prebuilt"  # the package of a wheel made by hpushim.emulator.prebuild
_WHAT = "the emulated HPU's library"
_WAITING = "hpushim: waiting for another process that is building the emulated HPU …\n"


def load_extension() -> ModuleType:
    """The compiled device as a module, built first if the cache lacks it. Raises EmulatorError."""
    torch = _usable_torch()
    name = _key(torch)
    library = _find(name) or _build(torch, name)
    while not hold(library):  # dropped by another process between the two calls
        library = _find(name) or _build(torch, name)
    _require_own(library)
    return _load(library)


def build() -> Path:
    """Build the device for this torch and Python if the cache lacks it; returns the library's path."""
    torch = _usable_torch()
    name = _key(torch)
    return _find(name) or _build(torch, name)


def readiness() -> str:
    """How the device is here: prebuilt, built, or what will build it. Raises EmulatorError with what is missing."""
    torch = _usable_torch()
    library = _find(_key(torch))
    if library is not None:
        _require_own(library)
        return f"{'built' if _in_cache(library) else 'prebuilt, from a hpushim-device wheel'}: {library}"
    require_own(cache_dir(), "the cache folder", CACHE_REMEDY)
    _require_what_compiles(torch)
    found = f"compiled at first use by {compiling.compiler()}, kept in {cache_dir()}"
    if any(_prebuilt_folders()):
        return f"{found}; the hpushim-device wheel here is for another torch, Python or hpushim"
    return (
        f"{found}; a hpushim-device wheel (python -m hpushim.emulator.prebuild) saves the compiler"
    )


def _usable_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise EmulatorError(
            f"no torch found ({error}); the emulated HPU is a torch device; install a CPU build of torch, 2.6 or newer"
        ) from error
    built_for = _other_accelerator(torch)
    if built_for:
        raise EmulatorError(
            f"torch {torch.__version__} is built for {built_for} and cannot host an hpu device "
            f'(torch itself refuses: "Cannot have both HPU and cuda"); install the CPU build of torch '
            f"{torch.__version__.split('+')[0]} in this environment"
        )
    return torch


def _other_accelerator(torch: Any) -> str:
    """The accelerator that this torch was compiled for, or an empty string."""
    for attribute, name in (("cuda", "CUDA"), ("hip", "ROCm"), ("xpu", "XPU")):
        if getattr(torch.version, attribute, None):
            return name
    return "CUDA" if torch.backends.cuda.is_built() else ""


def _key(torch: Any) -> str:
    digest = hashlib.sha256()
    for source in sorted(SOURCES.rglob("*")):
        if source.suffix in (".cpp", ".h"):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    digest.update(repr((compiling.flags(torch), compiling.UNITS)).encode())
    tag = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    return f"torch{torch.__version__}-{tag}-abi{int(compiling.new_abi(torch))}-{digest.hexdigest()[:16]}"


def digest_of(files: dict[str, str]) -> str:
    """A short name for generated content."""
    return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]


def _library_name() -> str:
    return MODULE + importlib.machinery.EXTENSION_SUFFIXES[0]


def _find(name: str) -> Path | None:
    for root in (*_prebuilt_folders(), cache_dir() / "device"):
        library = root / name / _library_name()
        with contextlib.suppress(OSError):  # a folder that may not be read: building says so
            if library.is_file():
                return library
    return None


def _prebuilt_folders() -> Iterator[Path]:
    packed = importlib.util.find_spec(PREBUILT)
    for place in (packed and packed.submodule_search_locations) or []:
        yield Path(place)


def _in_cache(library: Path) -> bool:
    return cache_dir() in library.parents


def _require_own(library: Path) -> None:
    """What is installed beside torch is trusted as torch is; all else is loaded only from the user's own folders."""
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    if site.ENABLE_USER_SITE:
        installed.add(site.getusersitepackages())
    if not _in_cache(library) and any(Path(root) in library.parents for root in installed):
        return
    require_own(library, _WHAT, CACHE_REMEDY)


def _build(torch: Any, name: str) -> Path:
    _require_what_compiles(torch)
    root = cache_dir() / "device"
    try:
        make_own_folder(root)
        with build_lock(root, name, waiting=lambda: compiling.say(_WAITING)):
            library = _find(name)  # another process may have built it while this one waited
            if library is None:
                library = _compile(torch, root, name)
        drop_old(root)
        return library
    except OSError as error:
        raise disk_error(error, root) from error


def _require_what_compiles(torch: Any) -> None:
    """A compiler, Python's headers and torch's. Raises EmulatorError for what is missing."""
    compiling.compiler()  # said first when there is none
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        raise EmulatorError(
            f"Python.h is not in {headers}; the emulated HPU is compiled against Python's headers; "
            "install them (Debian, Ubuntu: apt install python3-dev)"
        )
    own = Path(torch.__file__).parent / "include"
    if not (own / "ATen" / "core" / "Tensor.h").is_file():
        raise EmulatorError(
            f"torch's C++ headers are not in {own}; the emulated HPU is compiled against them; install a torch wheel "
            "that has them (pip's do), or a hpushim-device wheel made with python -m hpushim.emulator.prebuild"
        )


def _compile(torch: Any, root: Path, name: str) -> Path:
    for stale in root.glob(f".{name}.*"):  # left by a killed build; the lock is ours
        shutil.rmtree(stale, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=root))
    try:
        compiling.library(torch, work / "out" / _library_name(), work)
        mark(work / "out")
        for built in work.glob(
            "*.o"
        ):  # megabytes, which a process killed after the next line would leave
            built.unlink(missing_ok=True)
        (work / "out").replace(root / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return root / name / _library_name()


def _load(library: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(library))
    spec = importlib.util.spec_from_loader(MODULE, loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        forget(library)
        raise EmulatorError(
            f"the built emulated HPU {library} does not load ({error}); expected a library that fits this torch and "
            f"Python; {_remedy(library)}"
        ) from error
    return module


def _remedy(library: Path) -> str:
    if library.exists():
        return f"delete {library.parent} and start again"
    return "it was removed from the cache: start again to build it anew"
