"""The execution mode: the variable that chooses it, the value that goes with a target, and the bridge, which lazy mode needs imported."""

from __future__ import annotations

from hpushim.engine.base.text import Text
from hpushim.engine.python.module import Module

from .verdict import ask

VARIABLE = "PT_HPU_LAZY_MODE"
_CORE = "habana_frameworks.torch.core"
#: The values that have ever chosen a mode; any other is not assessed.
_VALUES = ("0", "1", "2")


def wanted(text: Text) -> str:
    """The value that the target's mode requests; "" for a portable target, which runs in either."""
    return {"lazy": "1", "eager": "0", "compile": "0"}.get(text.target.mode, "")


def contradicts(text: Text, value: str) -> bool:
    """Does ``value`` choose another mode than the target's?"""
    return value in _VALUES and bool(wanted(text)) and value != wanted(text)


def loads_itself(module: Module) -> bool:
    """Does the import alone do nothing on the target?

    A portable target may run in lazy mode, which needs it, and ``TORCH_DEVICE_BACKEND_AUTOLOAD`` can turn the loading off.
    """
    if module.target.mode not in ("eager", "compile"):
        return False
    return ask(module, _CORE).status == "noop" and not module.holds("TORCH_DEVICE_BACKEND_AUTOLOAD")
