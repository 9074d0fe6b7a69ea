"""Whether torch loads Gaudi's bridge by itself, so that nobody has to import it."""

from __future__ import annotations

from hpushim.engine.python.module import Module

from .verdict import ask

_CORE = "habana_frameworks.torch.core"


def loads_itself(module: Module) -> bool:
    """Does the import alone do nothing on the target?

    A portable target may run in lazy mode, which needs it, and ``TORCH_DEVICE_BACKEND_AUTOLOAD`` can turn the loading off.
    """
    if module.target.mode not in ("eager", "compile"):
        return False
    return ask(module, _CORE).status == "noop" and not module.holds("TORCH_DEVICE_BACKEND_AUTOLOAD")
