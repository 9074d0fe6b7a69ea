"""Waits for modules: runs a callback right after torch, or any other module that a patch names, was imported.

One finder on ``sys.meta_path``; it finds nothing itself, it only looks over the shoulder of the loader of a
module that somebody waits for. It imports nothing heavy, so ``import hpushim`` stays quick.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

Callback = Callable[[Any], None]


class Waiter:
    """The finder: module name to the callbacks to run with the module once its body has run."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callback]] = {}
        self._inside = threading.local()

    def wait_for(self, name: str, callback: Callback) -> None:
        """Calls ``callback(module)`` after the next import of ``name``; the first one takes the finder up."""
        self._waiting.setdefault(name, []).append(callback)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def forget(self, name: str | None = None) -> None:
        """Waits no longer for ``name``, or for anything; takes the finder down when nothing is left."""
        if name is None:
            self._waiting.clear()
        else:
            self._waiting.pop(name, None)
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)

    def names(self) -> list[str]:
        """The modules that are waited for."""
        return sorted(self._waiting)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec that the other finders give, with a loader that calls back when the body has run."""
        if name not in self._waiting or getattr(self._inside, "name", None) == name:
            return None
        self._inside.name = name
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if finder is not self and find is not None else None
                if spec is not None:
                    break
            else:
                return None
        finally:
            self._inside.name = None
        if spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _TellingLoader(spec.loader, self)
        return spec

    def loaded(self, module: Any) -> None:
        """Runs and drops the callbacks of a module whose body has run."""
        for callback in self._waiting.pop(module.__spec__.name, ()):
            callback(module)
        if not self._waiting:
            self.forget()


class _TellingLoader:
    """A loader that behaves as the real one and reports when the module's body has run."""

    def __init__(self, real: Any, waiter: Waiter) -> None:
        self._real = real
        self._waiter = waiter

    def create_module(self, spec: Any) -> Any:
        return self._real.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        self._waiter.loaded(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


waiter = Waiter()
