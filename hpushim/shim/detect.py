"""One decision, with its reason: is there CUDA, a Gaudi, or should the HPU be emulated?

The only door from the shim to the emulator.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hpushim import settings
from hpushim.errors import HpushimError

Mode = Literal["auto", "off", "hpu", "emulate"]
_HOW_TO_EMULATE = "to try the script on an emulated HPU set HPUSHIM=emulate, or use `hpushim run`"


# No dataclass: making one costs as much as patching forty functions.
class Decision(NamedTuple):
    """Whether to patch torch, and why. ``device`` is ``gaudi``, ``emulated`` or None when off."""

    on: bool
    reason: str
    device: Literal["gaudi", "emulated"] | None = None
    quiet: bool = False


def mode() -> Mode:
    """What ``HPUSHIM`` requests. Raises HpushimError for a value that it does not know."""
    return settings.read("HPUSHIM")  # type: ignore[return-value]


def decide() -> Decision:
    """Looks at the machine, with torch imported; turns the emulator on where it was requested.

    Raises HpushimError when what was requested cannot be had; EmulatorError from the emulator's build.
    """
    import torch

    wanted = mode()
    if wanted == "off":
        return Decision(False, "HPUSHIM=off", quiet=True)
    if wanted != "emulate" and gaudi_software():
        return _on_gaudi(torch, wanted)
    if wanted == "hpu":
        raise HpushimError(
            "HPUSHIM=hpu, but habana_frameworks is not installed here; expected a Gaudi machine with its "
            f"software; {_HOW_TO_EMULATE}"
        )
    if wanted == "emulate":
        _refuse_cuda_build(torch)
        return _emulated()
    if cuda_works():
        return Decision(
            False, "this machine has a working CUDA device, so hpushim patches nothing", quiet=True
        )
    return Decision(False, f"this machine has neither a CUDA device nor a Gaudi; {_HOW_TO_EMULATE}")


def _emulated() -> Decision:
    """A program that is written for Gaudi already gets the device without the shim, as on a Gaudi."""
    from hpushim.shim.run import import_hook, ported

    chosen = ported.Choice(False, "") if import_hook.is_inherited() else ported.choice()
    emulate()
    if chosen.native:
        os.environ["HPUSHIM"] = "off"  # for its children
        return Decision(False, chosen.reason, "emulated")
    return Decision(True, "; ".join(filter(None, ("HPUSHIM=emulate", chosen.reason))), "emulated")


def cuda_works() -> bool:
    """Whether torch itself, unpatched, has a CUDA device to work on."""
    import torch

    return bool(torch.backends.cuda.is_built() and torch.cuda.is_available())


def require_cuda() -> None:
    """Raises HpushimError where neither CUDA nor an HPU, real or emulated, can run a script: a CUDA build without a device."""
    import torch

    if not cuda_works():
        _refuse_cuda_build(torch)


def emulate() -> None:
    """Makes the emulated HPU the ``hpu`` device of this process. Raises EmulatorError with the remedy."""
    from hpushim import emulator

    emulator.enable(gaudi=generation(), devices=device_count())


def generation() -> str:
    """Which Gaudi to emulate (``HPUSHIM_GAUDI``, default gaudi2). Raises HpushimError for another name."""
    return settings.read("HPUSHIM_GAUDI")


def device_count() -> int:
    """How many devices to emulate (``HPUSHIM_DEVICES``, default 1). Raises HpushimError unless a number from 1."""
    return int(settings.read("HPUSHIM_DEVICES"))


def emulated_device() -> Any:
    """The C++ extension of the emulated HPU, built first where it is not yet. Raises EmulatorError with the remedy."""
    from hpushim.emulator import device

    return device.load()


def emulator_readiness() -> str:
    """Whether the HPU can be emulated here, in words. Raises EmulatorError with what is missing."""
    from hpushim.emulator import build

    return build.readiness()


def emulated_environment() -> dict[str, str]:
    """The environment that makes child processes emulate: variable to value."""
    from hpushim import emulator

    return emulator.environment(gaudi=generation())


def emulator_ledger() -> dict[str, Any]:
    """The emulator's ledger of this process; empty without the emulator."""
    import sys

    if "hpushim.emulator.ledger" not in sys.modules:
        return {}
    from hpushim.emulator import ledger

    totals: dict[str, Any] = ledger.snapshot()
    return totals


def _on_gaudi(torch: Any, wanted: Mode) -> Decision:
    if wanted == "auto" and torch.backends.cuda.is_built() and torch.cuda.is_available():
        return Decision(
            False, "this machine has a working CUDA device, so hpushim patches nothing", quiet=True
        )
    _refuse_cuda_build(torch)
    from hpushim.shim import devices, log, vendor

    if vendor.migration_toolkit():
        return _leave_it_to_the_toolkit(wanted)
    devices.show_chosen_devices()
    importlib.import_module(vendor.PACKAGE)
    gone = vendor.require(torch)
    if not torch.hpu.is_available():
        raise HpushimError(
            "the Gaudi software is installed, but no Gaudi device answers; expected one from `hl-smi`; check "
            "the driver and HABANA_VISIBLE_DEVICES, or set HPUSHIM=off; to emulate an HPU, use an environment "
            "without habana_frameworks"
        )
    if gone:
        log.warn("HPU907", vendor.explained(gone))
    return Decision(True, "this machine has a Gaudi", "gaudi")


def _leave_it_to_the_toolkit(wanted: Mode) -> Decision:
    """Two tools that patch the same calls would undo each other."""
    if wanted == "hpu":
        raise HpushimError(
            "PT_HPU_GPU_MIGRATION=1 requests Intel's GPU migration toolkit, which patches the calls that hpushim "
            "patches; unset it to use hpushim, or start the script without hpushim"
        )
    return Decision(
        False,
        "PT_HPU_GPU_MIGRATION=1 leaves CUDA calls to Intel's GPU migration toolkit; unset it to use hpushim",
    )


def gaudi_software() -> bool:
    """Whether Intel's package is installed; the emulated package on the path does not count."""
    spec = importlib.util.find_spec("habana_frameworks")
    places = spec.submodule_search_locations if spec is not None else None
    look_alike = Path(__file__).parents[1] / "emulator"
    return any(not Path(place).is_relative_to(look_alike) for place in places or ())


def _refuse_cuda_build(torch: Any) -> None:
    if torch.backends.cuda.is_built():
        raise HpushimError(
            f"torch {torch.__version__} is a CUDA build, which cannot host an hpu device; expected a CPU build or "
            "Intel's; install the CPU build of the same release in an environment of its own"
        )
