"""Turn emulation on: in this process (``enable``) and in the processes that it starts (``environment``)."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

from hpushim.emulator import SITE, build, cache, device, ending, ledger
from hpushim.emulator.trust import require_own
from hpushim.errors import EmulatorError

_PLUGIN = "habana_torch_plugin"

_METADATA = """\
Metadata-Version: 2.1
Name: habana-torch-plugin
Version: {version}
Summary: emulated by hpushim: replaces the Gaudi software on machines without a Gaudi
"""

_ENTRY_POINTS = """\
[torch.backends]
habana_frameworks = hpushim.emulator.enabling:autoload

[torch_dynamo_backends]
hpu_backend = habana_frameworks.torch.dynamo.compile_backend.backends:hpu_backend
"""

_HL_SMI = """\
#!/bin/sh
# emulated by hpushim
if [ "$1" = "-v" ]; then
  echo "hl-smi version:    hl-{version}-fw-0.0.0-0 (emulated by hpushim)"
else
  echo "| HL-SMI Version:  hl-{version}-fw-0.0.0-0 (emulated by hpushim) |"
  echo "| Driver Version:  {version}-0 (emulated) |"
fi
"""

_enabled = False
_dressed = False


def enable(gaudi: str = "gaudi2", devices: int = 1) -> None:
    """Make ``hpu`` a torch device of this process, with the vendor's emulated package around it.

    Idempotent. The environment is changed too, so that child processes emulate. Raises EmulatorError.
    """
    global _enabled
    if _enabled:
        return
    refuse_real_package()
    os.environ["HPUSHIM_GAUDI"] = gaudi
    os.environ["HPUSHIM_DEVICES"] = str(devices)
    ledger.take_file()
    device.load()
    _enabled = True
    try:
        changes = environment(gaudi=gaudi)
        os.environ.update(changes)
        for folder in reversed(changes["PYTHONPATH"].split(os.pathsep)):
            if folder and folder not in sys.path:
                sys.path.insert(1, folder)
        dress_torch()
    except BaseException:
        _enabled = False
        raise


def _random_of_cpu() -> bool:
    """Whether ``HPUSHIM_EMULATED_RANDOM=cpu`` requests the CPU's stream; unset or ``own``: a stream of the device's own."""
    found = os.environ.get("HPUSHIM_EMULATED_RANDOM", "").strip().lower() or "own"
    if found not in ("own", "cpu"):
        raise EmulatorError(
            f"HPUSHIM_EMULATED_RANDOM is {found!r}; expected own or cpu; unset it for own"
        )
    return found == "cpu"


def autoload() -> None:
    """The ``torch.backends`` entry point of the generated package: what ``import torch`` runs in child processes.

    Under the policies that reject, a program has to import habana_frameworks itself where it has to on a Gaudi.
    """
    from hpushim.emulator import profiles

    profile = profiles.current()
    if profile.policy != "observe" and not _loads_by_itself(profile.release):
        return
    enable(os.environ.get("HPUSHIM_GAUDI") or "gaudi2", device.device_count())


def _loads_by_itself(release: str) -> bool:
    """Does torch load the vendor's package by itself? Since release 1.19, and in lazy mode only with PT_HPU_AUTOLOAD=1."""
    from habana_frameworks.autoload import is_autoload_enabled

    from hpushim.matrix.version import within

    return within(release, "1.19", "") and bool(is_autoload_enabled())


def refuse_real_package() -> None:
    """Raise EmulatorError when the real Gaudi software is installed: the emulated package never shadows it."""
    spec = importlib.util.find_spec("habana_frameworks")
    if spec is None:
        return
    places = [Path(place) for place in (spec.submodule_search_locations or [])]
    if any(SITE not in place.parents for place in places):
        raise EmulatorError(
            f"the real habana_frameworks is installed ({places[0]}); the emulator never shadows it; run on the Gaudi "
            "(HPUSHIM=hpu), or emulate in an environment without it"
        )


def environment(gaudi: str = "gaudi2", stack: str | None = None) -> dict[str, str]:
    """The environment changes that make child processes emulate: variable to new value. Loads nothing."""
    folder = _child_folder(stack or newest_stack())
    return {
        "HPUSHIM_GAUDI": gaudi,
        # The processes of one run share its devices.
        "HPUSHIM_MACHINE": os.environ.get("HPUSHIM_MACHINE") or f"{os.getpid()}-{time.time_ns()}",
        "PYTHONPATH": _prepended("PYTHONPATH", str(SITE), str(folder)),
        "PATH": _prepended("PATH", str(folder / "bin")),
    }


def newest_stack() -> str:
    """The newest release of the Gaudi software that the matrix knows, or ``HPUSHIM_STACK``."""
    chosen = os.environ.get("HPUSHIM_STACK")
    if chosen:
        return chosen
    from hpushim.matrix import load

    return list(load().releases)[-1]


def _prepended(variable: str, *folders: str) -> str:
    rest = [part for part in os.environ.get(variable, "").split(os.pathsep) if part]
    return os.pathsep.join([*folders, *(part for part in rest if part not in folders)])


def _child_folder(version: str) -> Path:
    """A folder with the package metadata and the tools that frameworks ask a Gaudi machine for; made once."""
    version = version if version.count(".") > 1 else f"{version}.0"
    files = {
        f"{_PLUGIN}-{version}.dist-info/METADATA": _METADATA.format(version=version),
        f"{_PLUGIN}-{version}.dist-info/entry_points.txt": _ENTRY_POINTS,
        f"{_PLUGIN}-{version}.dist-info/INSTALLER": "hpushim\n",
        f"{_PLUGIN}-{version}.dist-info/RECORD": "",
        "bin/hl-smi": _HL_SMI.format(version=version),
    }
    root = cache.cache_dir() / "environment"
    folder = root / f"{version}-{build.digest_of(files)}"
    if folder.is_dir():
        require_own(folder, "the folder", cache.CACHE_REMEDY)
        return folder
    try:
        cache.make_own_folder(root)
        work = Path(tempfile.mkdtemp(prefix=".new.", dir=root))
        for name, text in files.items():
            (work / name).parent.mkdir(mode=0o755, exist_ok=True)
            (work / name).write_text(text, encoding="utf-8")
        (work / "bin/hl-smi").chmod(0o755)
        try:
            work.replace(folder)
        except OSError:
            shutil.rmtree(work, ignore_errors=True)
            if not folder.is_dir():
                raise
    except OSError as error:
        raise cache.disk_error(error, root) from error
    return folder


def dress_torch() -> None:
    """Register the device with torch's Python side: its module, its seed, its collectives, its autocast. Idempotent.

    The emulated package does so when it is imported, however that comes about. Raises EmulatorError.
    """
    global _dressed
    if _dressed:
        return
    _dressed = True
    import torch

    from hpushim.emulator import calls, hccl, objections, refusals, sync_norm

    device.load()
    refusals.install()
    calls.install()
    _seed_with_torch(torch)
    _fork_random_with_torch(torch)
    _set_autocast()
    module = importlib.import_module("habana_frameworks.torch.hpu")
    if getattr(torch, "hpu", None) is not module:
        torch._register_device_module("hpu", module)
    # torch's checkpointing keeps the device's random state only if its module says that it is in use.
    vars(module).setdefault("_initialized", True)
    hccl.register()
    sync_norm.register()
    ledger.start()
    objections.enforce()
    # For comparing runs: with dropout the numbers equal a CPU run's only if both draw from one stream.
    device.share_cpu_random(_random_of_cpu())
    ending.register()


def _seed_with_torch(torch: ModuleType) -> None:
    """torch.manual_seed and torch.seed seed every device by calling this private function of their module."""
    random = torch.random
    original = getattr(random, "_seed_custom_device", None)
    if original is None:
        raise EmulatorError(
            f"torch {torch.__version__} has no torch.random._seed_custom_device, through which torch.manual_seed "
            "would seed the emulated HPU; expected torch 2.6 to 2.13; seed with torch.hpu.manual_seed() and report this"
        )

    def _seed_custom_device(seed: int) -> None:
        device.manual_seed(seed)
        original(seed)

    random._seed_custom_device = _seed_custom_device


def _fork_random_with_torch(torch: ModuleType) -> None:
    """torch.random.fork_rng without a device_type keeps the stream of the hpu, as with the vendor's package.

    Newer torch requests the accelerator by itself; older ones have "cuda" there.
    """
    function = getattr(torch.random.fork_rng, "__wrapped__", None)
    if function is not None and function.__defaults__:
        function.__defaults__ = tuple(
            "hpu" if one == "cuda" else one for one in function.__defaults__
        )


def _set_autocast() -> None:
    from hpushim.matrix import load

    lists = load().autocast
    device.set_autocast_lists(
        lower=lists.lower.split(), float32=lists.fp32.split(), widest=lists.promote.split()
    )
