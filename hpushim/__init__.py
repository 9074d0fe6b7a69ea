"""Run and port CUDA training scripts on Intel Gaudi (device ``hpu``).

``import hpushim`` before anything else is enough: as soon as torch is imported, CUDA calls land on HPU.
Where a CUDA device works, nothing is changed. ``HPUSHIM=auto|off|hpu|emulate`` decides otherwise. Importing
this package imports neither torch nor anything else that is heavy.
"""

from __future__ import annotations

import sys as _sys


def _leave_current_folder() -> None:
    """Under ``python -m hpushim`` nothing is imported from the current folder, which Python puts first.

    A project that is looked at may hold a ``typing.py``. Python has chosen this very package by then: what makes sure
    of that, too, is the command ``hpushim`` or ``python -P -m hpushim``.
    """
    global _leaves_later
    safe = getattr(_sys.flags, "safe_path", False) or _sys.flags.isolated
    if safe or _sys.argv[:1] != ["-m"]:  # what is there while Python looks for the module
        return
    left = len(_sys.orig_argv) - len(_sys.argv)  # the last word before the program's own
    word = _sys.orig_argv[left] if left > 0 else ""
    if word.startswith("-"):  # -mhpushim, -Bmhpushim
        word = word.partition("m")[2]
    if word == __name__ or word.startswith(f"{__name__}."):
        if "runpy" in _sys.modules:
            del _sys.path[0]
        else:
            _leaves_later = True  # a sitecustomize imports this package: Python has not put the folder there yet


#: Whether ``__main__`` still has to leave the current folder.
_leaves_later = False
_leave_current_folder()

import gc as _gc
import os as _os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__version__ = "0.1.0"
__all__ = ["__version__", "activate", "deactivate", "disarm", "ledger", "native", "status"]


def activate() -> bool:
    """Patches torch now, or as soon as it is imported; True when torch is patched on return.

    Does nothing where a CUDA device works or ``HPUSHIM=off``. Raises HpushimError when ``HPUSHIM`` requests a
    device that cannot be had.
    """
    if "torch" in _sys.modules:
        if _after_the_gaudi_software():
            return False
        # A full collection walks all of torch's objects, which takes as long as the patching itself.
        collecting = _gc.isenabled()
        _gc.disable()
        try:
            from hpushim.shim.session import session

            return session.activate()
        finally:
            if collecting:
                _gc.enable()
    from hpushim.shim.imports.waiter import waiter

    waiter.forget("torch")
    waiter.wait_for("torch", _torch_arrived)
    return False


def _torch_arrived(module: Any) -> None:
    activate()


def _after_the_gaudi_software() -> bool:
    """True where the vendor's package is being imported, which imports torch first: it is waited for."""
    package = _sys.modules.get("habana_frameworks.torch")
    if package is None:
        return False
    from hpushim.shim import unfinished

    if not unfinished.being_imported(package):
        return False
    unfinished.when_done(package, activate)
    return True


def deactivate() -> None:
    """Puts torch back as it was, and stops waiting for it."""
    disarm()
    if "hpushim.shim.session" in _sys.modules:
        from hpushim.shim.session import session

        session.deactivate()


def disarm() -> None:
    """Stops waiting for torch; what is patched already stays patched."""
    from hpushim.shim.imports.waiter import waiter

    waiter.forget("torch")


def native() -> AbstractContextManager[None]:
    """A context in which torch behaves as it does without the shim, in the whole process."""
    from hpushim.shim.session import session

    return session.native()


def status() -> dict[str, Any]:
    """Whether the shim is active and why, which patches are applied, what they had to say; plain data."""
    from hpushim.shim.session import session

    return session.status()


def ledger() -> dict[str, Any]:
    """What ran in this process: the emulator's ledger, if it is on, and ``unhandled_cuda``."""
    from hpushim.shim.session import session

    return session.ledger()


_wanted = _os.environ.get("HPUSHIM", "").strip().lower()
if _wanted == "emulate":
    from hpushim import emulator as _emulator

    _emulator.offer_look_alike()
if _wanted not in ("0", "off"):
    activate()
