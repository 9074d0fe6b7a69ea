"""Substitutes for ``apex`` and ``pynvml`` where these are not installed: small modules over torch, for the user's own code.

A substitute is a module with ``MODULES``, a table of what each module of the package holds, ``CODE`` and ``NOTE``, said when
it is imported, and ``ADVICE`` for a name that it lacks; ``unknown(name)`` may answer for such a name.
"""

from __future__ import annotations

import functools
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

from hpushim import callers
from hpushim.shim import log
from hpushim.shim.imports import blocked
from hpushim.shim.mechanisms.in_place import Undo

_SOURCES = {"apex": "hpushim.shim.imports.apex", "pynvml": "hpushim.shim.imports.pynvml"}

_imported: list[str] = []


def install() -> Undo:
    """Watches imports of these packages; the undo also forgets the substitutes that were imported."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)

    def undo() -> bool:
        sys.meta_path[:] = [one for one in sys.meta_path if one is not finder]
        for name in _imported:
            sys.modules.pop(name, None)
        _imported.clear()
        return True

    return undo


class _Finder:
    """Finds the modules of a substitute where the package itself is not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.partition(".")[0]
        if top not in _SOURCES or importlib.machinery.PathFinder.find_spec(top) is not None:
            return None
        if not (blocked.by_user() or top in sys.modules):
            return None
        source = importlib.import_module(_SOURCES[top])
        if name not in source.MODULES:
            raise ModuleNotFoundError(_no_such(source, name), name=name)
        loader: Any = _Loader(source)
        return importlib.machinery.ModuleSpec(name, loader, origin="hpushim", is_package=True)


class _Loader:
    """Fills a module with what its source's table holds."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        _imported.append(module.__name__)
        module.__dict__.update(self._source.MODULES[module.__name__])
        module.__getattr__ = functools.partial(_missing, self._source, module.__name__)  # type: ignore[method-assign]
        log.warn(self._source.CODE, self._source.NOTE)


def _missing(source: Any, module: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    answer = getattr(source, "unknown", lambda name: None)(name)
    if answer is not None:
        return answer
    try:
        return importlib.import_module(f"{module}.{name}")
    except ImportError:
        raise AttributeError(_no_such(source, f"{module}.{name}")) from None


def _no_such(source: Any, name: str) -> str:
    file, line = callers.user_site()
    top = name.partition(".")[0]
    return f"{source.CODE} {file}:{line}: {name}: hpushim's substitute for {top} has no such name; {source.ADVICE}"
