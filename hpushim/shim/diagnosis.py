"""What hpushim finds on this machine: facts for ``hpushim doctor``, each with what to do about it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hpushim import settings
from hpushim.errors import HpushimError
from hpushim.shim import detect, vendor

State = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Fact:
    """One thing found, and what was expected where it is something else; ``problem`` stops something that hpushim does."""

    topic: str
    state: State
    text: str
    remedy: str = ""  #: what to do; every problem has one


def _problem(topic: str, error: Exception) -> Fact:
    """An error of hpushim's own, which says what was found, what was expected, and at its end what to do."""
    found, _, remedy = str(error).rpartition("; ")
    return Fact(topic, "problem", found or remedy, remedy if found else "see the text")


def facts() -> Iterator[Fact]:
    """Everything that decides how hpushim behaves here. Imports torch when it is installed."""
    yield _python()
    yield _command()
    if importlib.util.find_spec("torch") is None:
        yield Fact(
            "torch",
            "problem",
            "not installed: migrate, check, report and api work without torch; run needs torch 2.6 or newer",
            "run `pip install 'hpushim[torch]'`; on a Gaudi machine, use the torch of its image",
        )
    else:
        yield from _torch()
    yield from _gaudi()
    yield _entry_point()
    yield from _environment()


def _python() -> Fact:
    text = f"{platform.python_version()} ({sys.executable})"
    if (3, 10) <= sys.version_info < (3, 14):
        return Fact("python", "ok", text)
    return Fact(
        "python",
        "note",
        f"{text}; tested versions are 3.10 to 3.13",
        "use one of these if something fails",
    )


def _command() -> Fact:
    """Is the ``hpushim`` of a shell the one that answers here?"""
    found = shutil.which("hpushim")
    here = os.path.dirname(sys.executable)  # noqa: PTH120
    if found is None:
        text = "hpushim is not on PATH: git's merge driver and pre-commit need its full path"
        return Fact("command", "note", text, f"add {here} to PATH")
    if os.path.samefile(os.path.dirname(found), here):  # noqa: PTH120, PTH121
        return Fact("command", "ok", found)
    text = f"the first hpushim on PATH is {found}, which belongs to a different Python"
    return Fact("command", "note", text, f"put {here} first on PATH, or activate its environment")


def _torch() -> Iterator[Fact]:
    import torch

    from hpushim.matrix import load

    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if release < (2, 6):
        text = f"{torch.__version__}; expected 2.6 or newer"
        yield Fact("torch", "problem", text, "install a CPU build of torch 2.6 or newer")
    else:
        yield Fact("torch", "ok", f"{torch.__version__}")
    matrix = load()
    minor = torch.__version__.split("+")[0].rsplit(".", 1)[0]
    fitting = [name for name in matrix.releases if matrix.torch_mismatch(name, minor) is None]
    known = [name for name in fitting if matrix.releases[name].torch]
    text = f"Gaudi releases with torch {minor}: {', '.join(known)}"
    if not known:
        text = f"the compatibility matrix has no Gaudi release with torch {minor}"
    yield Fact("release", "note", text)
    yield _cuda()
    try:
        yield Fact("emulated HPU", "ok", detect.emulator_readiness())
    except HpushimError as error:
        yield _problem("emulated HPU", error)


def _cuda() -> Fact:
    import torch

    if detect.cuda_works():
        name = torch.cuda.get_device_name(0)
        return Fact(
            "cuda", "ok", f"a working device ({name}): `import hpushim` changes nothing here"
        )
    if torch.backends.cuda.is_built():
        text = (
            "torch is a CUDA build without a working device; a CUDA build cannot host an hpu device"
        )
        return Fact(
            "cuda", "note", text, "to use the emulated HPU, install the CPU build of the same torch"
        )
    return Fact("cuda", "ok", "torch is built without CUDA, so it can host an hpu device")


def _gaudi() -> Iterator[Fact]:
    software = importlib.util.find_spec("habana_frameworks") is not None
    tool = shutil.which("hl-smi")
    if not software:
        yield Fact("gaudi", "note", "no Gaudi software here: `hpushim run` uses the emulated HPU")
    elif tool is None:
        yield Fact(
            "gaudi",
            "problem",
            "habana_frameworks is installed, but hl-smi is not on PATH; expected both",
            "install the driver (`hl-smi` comes with it), or add its folder to PATH",
        )
    else:
        yield Fact("gaudi", "ok", f"habana_frameworks is installed; hl-smi is {tool}")
    if software and detect.gaudi_software():
        yield from _devices()


def _devices() -> Iterator[Fact]:
    """What the vendor's package itself answers."""
    import torch

    try:
        importlib.import_module(vendor.PACKAGE)
        count = int(torch.hpu.device_count())
    except Exception as error:  # whatever ails the installation is what is requested
        text = f"importing {vendor.PACKAGE} fails: {type(error).__name__}: {error}"
        remedy = (
            "install the release that belongs to this torch (`hpushim matrix show --area device`)"
        )
        yield Fact("gaudi devices", "problem", text, remedy)
        return
    if count:
        yield Fact("gaudi devices", "ok", f"torch.hpu finds {count}")
    else:
        text = "torch.hpu finds none; expected at least one"
        remedy = "load the driver (`hl-smi` lists devices); check HABANA_VISIBLE_DEVICES, which can hide them"
        yield Fact("gaudi devices", "problem", text, remedy)
    gone = vendor.missing(torch)
    if gone:
        remedy = "use a release that hpushim supports, or avoid these CUDA names"
        yield Fact("gaudi software", "problem", vendor.explained(gone), remedy)
    if vendor.migration_toolkit():
        text = "Intel's GPU migration toolkit is on: hpushim leaves CUDA calls to it"
        yield Fact("PT_HPU_GPU_MIGRATION", "note", text)


def _entry_point() -> Fact:
    found = [
        e for e in importlib.metadata.entry_points(group="torch.backends") if e.name == "hpushim"
    ]
    if found:
        return Fact(
            "entry point",
            "ok",
            "registered: `import torch` in a child process loads the shim as HPUSHIM says",
        )
    return Fact(
        "entry point",
        "problem",
        "not registered: child processes do not load the shim",
        "install hpushim (`pip install hpushim`; `pip install -e .` in a checkout)",
    )


def _environment() -> Iterator[Fact]:
    for name in settings.SETTINGS:
        if name == "HPUSHIM" or os.environ.get(name):
            try:
                yield Fact(name, "ok", settings.read(name))
            except HpushimError as error:
                yield _problem(name, error)
    for name in settings.unknown():
        text = f"hpushim has no such setting{settings.nearest(name)}"
        yield Fact(name, "problem", text, f"unset {name}; `hpushim doctor` lists what is set")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        yield Fact(
            "TORCH_DEVICE_BACKEND_AUTOLOAD",
            "problem",
            "is 0: `import torch` loads no device backend, so child processes get neither the shim nor the HPU",
            "unset it",
        )
    if "PT_HPU_LAZY_MODE" not in os.environ:
        yield Fact(
            "PT_HPU_LAZY_MODE",
            "note",
            "not set: parts of the Gaudi stack assume different defaults",
            "set it to 0 (eager, compile) or 1 (lazy)",
        )
    for name in sorted(os.environ):
        if name.startswith(("PT_HPU_", "HABANA_", "HLS_")):
            yield Fact(name, "ok", os.environ[name])
