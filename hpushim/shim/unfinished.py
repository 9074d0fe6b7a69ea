"""A callback when a module that is being imported right now is done.

The Gaudi software imports torch on its own first lines. Who waits for torch alone is reported then, when the software has
not yet given torch its device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any


def being_imported(module: Any) -> bool:
    """Is the module's body still running?"""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def when_done(module: Any, callback: Callable[[], object]) -> None:
    """Calls ``callback`` once, when the import that is under way ends well; an exception of its own ends that import.

    The import system says the end of a body on the module's spec, so the spec listens.
    """
    spec = module.__spec__
    spec.__dict__["_when_done"] = callback
    spec.__class__ = _Listening


class _Listening(ModuleSpec):
    """A spec until its module is done; then an ordinary one again."""

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__["_initializing"])

    @_initializing.setter
    def _initializing(self, going_on: bool) -> None:
        self.__dict__["_initializing"] = going_on
        if going_on:
            return
        self.__class__ = ModuleSpec  # type: ignore[assignment]
        callback = self.__dict__.pop("_when_done")
        if self.name in sys.modules:  # else its body has failed
            callback()
