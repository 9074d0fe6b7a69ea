"""Compile the C++ device once per torch, Python and source, keep it in the cache, and load it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from hpushim.emulator.cache import (
    build_lock,
    cache_dir,
    disk_error,
    drop_old,
    forget,
    hold,
    mark,
)
from hpushim.errors import EmulatorError

MODULE = "_hpushim_device"
SOURCES = Path(__file__).parent / "csrc"
PREBUILT = "_hpushim_prebuilt"  # the package of a wheel made by hpushim.emulator.prebuild
_WAITING = "waiting for another process that is building the emulated HPU …\n"
JOBS = 2  # the compiler wants up to a gigabyte each


def load_extension() -> ModuleType:
    """The compiled device as a module, built first if the cache lacks it. Raises EmulatorError."""
    torch = _usable_torch()
    name = _key(torch)
    library = _find(name) or _build(torch, name)
    while not hold(library):  # dropped by another process between the two calls
        library = _find(name) or _build(torch, name)
    return _load(library)


def build() -> Path:
    """Build the device for this torch and Python if the cache lacks it; returns the library's path."""
    torch = _usable_torch()
    name = _key(torch)
    return _find(name) or _build(torch, name)


def readiness() -> str:
    """How the device stands here: already built, or what will build it. Raises EmulatorError with what is missing."""
    name = _key(_usable_torch())
    library = _find(name)
    if library is not None:
        return f"built: {library}"
    return f"compiled at first use by {_compiler()}, kept in {cache_dir()}"


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
    for source in sorted(SOURCES.iterdir()):
        if source.suffix in (".cpp", ".h"):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    digest.update(repr(_flags(torch)).encode())
    tag = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    return f"torch{torch.__version__}-{tag}-abi{int(_new_abi(torch))}-{digest.hexdigest()[:16]}"


def digest_of(files: dict[str, str]) -> str:
    """A short name for generated content."""
    return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]


def _new_abi(torch: Any) -> bool:
    return bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))


def _library_name() -> str:
    return MODULE + importlib.machinery.EXTENSION_SUFFIXES[0]


def _find(name: str) -> Path | None:
    packed = importlib.util.find_spec(PREBUILT)
    roots = [Path(place) for place in (packed and packed.submodule_search_locations) or []]
    for root in (*roots, cache_dir() / "device"):
        library = root / name / _library_name()
        with contextlib.suppress(OSError):  # a folder that may not be read: building says so
            if library.is_file():
                return library
    return None


def _flags(torch: Any) -> list[str]:
    """Compiler flags that do not depend on where torch and Python are installed."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    flags = [
        "-std=c++17" if (major, minor) < (2, 14) else "-std=c++20",  # what torch's headers ask for
        "-O1",
        "-fPIC",
        "-fvisibility=hidden",
        "-w",  # torch's headers warn by themselves
        f"-DHPU_TORCH_VERSION={major * 100 + minor}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(_new_abi(torch))}",
    ]
    for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):  # pybind11 types are shared with torch's
        value = getattr(torch._C, f"_PYBIND11_{name}", None)
        if value is not None:
            flags.append(f'-DPYBIND11_{name}="{value}"')
    if torch.distributed.is_available():
        flags.append("-DHPU_DISTRIBUTED")
    return flags


def _compiler() -> str:
    asked = os.environ.get("CXX")
    for candidate in [asked] if asked else ["g++", "c++", "clang++"]:
        found = shutil.which(candidate)
        if found:
            return found
    raise EmulatorError(
        f"no C++ compiler found (looked for {asked or 'g++, c++, clang++'}); the emulated HPU is compiled once for "
        "each torch; install one (Debian, Ubuntu: apt install g++) or set CXX"
    )


def _build(torch: Any, name: str) -> Path:
    compiler = _compiler()
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
    root = cache_dir() / "device"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with build_lock(root, name, waiting=lambda: _say(_WAITING)):
            library = _find(name)  # another process may have built it while this one waited
            if library is None:
                library = _compile(torch, compiler, headers, root, name)
        drop_old(root)
        return library
    except OSError as error:
        raise disk_error(error, root) from error


def _compile(torch: Any, compiler: str, headers: Path, root: Path, name: str) -> Path:
    for stale in root.glob(f".{name}.*"):  # left by a killed build; the lock is ours
        shutil.rmtree(stale, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=root))
    try:
        started = time.monotonic()
        objects = _compile_objects(torch, compiler, headers, work)
        _link(torch, compiler, objects, work / "out" / _library_name())
        mark(work / "out")
        for built in objects:  # megabytes, which a process killed after the next line would leave
            built.unlink(missing_ok=True)
        (work / "out").replace(root / name)
        _say(f" done in {time.monotonic() - started:.0f} s\n")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return root / name / _library_name()


def _compile_objects(torch: Any, compiler: str, headers: Path, work: Path) -> list[Path]:
    include = Path(torch.__file__).parent / "include"
    flags = [*_flags(torch), f"-I{include}", f"-I{include / 'torch/csrc/api/include'}"]
    flags += [f"-I{headers}", f"-I{SOURCES}"]
    sources = sorted(SOURCES.glob("*.cpp"), key=lambda path: -path.stat().st_size)
    done = 0
    _progress(torch, done, len(sources))

    def one(source: Path) -> Path:
        target = work / f"{source.stem}.o"
        _run(
            [compiler, *flags, "-c", str(source), "-o", str(target)],
            work,
            f"compiling {source.name}",
        )
        return target

    with ThreadPoolExecutor(JOBS) as pool:
        objects = []
        for built in pool.map(one, sources):
            objects.append(built)
            done += 1
            _progress(torch, done, len(sources))
    return objects


def _link(torch: Any, compiler: str, objects: list[Path], library: Path) -> None:
    folder = Path(torch.__file__).parent / "lib"
    library.parent.mkdir()
    command = [compiler, "-shared", "-s", *map(str, objects), "-o", str(library), f"-L{folder}"]
    command += ["-lc10", "-ltorch_cpu", "-ltorch_python", "-ltorch", f"-Wl,-rpath,{folder}"]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    _run(command, library.parent.parent, "linking")


def _run(command: list[str], work: Path, doing: str) -> None:
    environment = {**os.environ, "TMPDIR": str(work), "LC_ALL": "C"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if result.returncode == 0:
        return
    output = result.stderr
    if "No space left on device" in output or "Disk quota exceeded" in output:
        raise OSError(errno.ENOSPC, "No space left on device")
    errors = [line.strip() for line in output.splitlines() if "error" in line.lower()]
    first = (
        errors[0] if errors else (output.strip().splitlines() or [f"exit {result.returncode}"])[-1]
    )
    raise EmulatorError(
        f"{doing} for the emulated HPU failed with {command[0]} (exit {result.returncode}): {first[:300]}; expected "
        "GCC 9 or Clang 10 or newer and torch 2.6 or newer; set CXX to another compiler, or report this line"
    )


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


def _progress(torch: Any, done: int, total: int) -> None:
    _say(
        f"\rhpushim: building the emulated HPU for torch {torch.__version__} (once, under a minute) {done}/{total}"
    )


def _say(text: str) -> None:
    if os.environ.get("HPUSHIM_LOG", "").strip().lower() != "quiet":
        sys.stderr.write(text)
        sys.stderr.flush()
