"""Imports of packages that are made for NVIDIA: refused with the alternative, or answered by a stand-in.

A package that the matrix blocks fails to import, as if it were not installed, so that the program's own fallback is
taken; the message names the alternative. ``apex`` and ``pynvml``, when they are not installed, are answered by small
modules over torch. Both concern the user's own code: torch, and libraries that look after themselves, see the truth.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

from hpushim.shim import availability, log
from hpushim.shim.in_place import Undo

_STAND_INS = {"apex": "hpushim.shim.stand_in_apex", "pynvml": "hpushim.shim.stand_in_pynvml"}

_standing: list[str] = []
"""The stand-ins that were imported."""


def install() -> Undo:
    """Watches imports of top-level packages; the undo also forgets the stand-ins that were imported."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)

    def undo() -> bool:
        sys.meta_path[:] = [one for one in sys.meta_path if one is not finder]
        for name in _standing:
            sys.modules.pop(name, None)
        _standing.clear()
        return True

    return undo


@functools.cache
def _blocked() -> dict[str, Any]:
    """Top-level import names that the matrix blocks, with their rows; read at the first foreign import."""
    from hpushim import matrix

    rows = matrix.load().by_runtime("block")
    return {name: row for row in rows for name in row.names if "." not in name}


class _Finder:
    """Finds the blocked packages that are installed, to refuse them, and the stand-ins of those that are not."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.partition(".")[0]
        if path is not None and top not in _STAND_INS:
            return None
        if top in sys.stdlib_module_names or top in ("torch", "hpushim", "_hpushim"):
            return None
        if top in _STAND_INS:
            return _stand_in(name, top)
        row = _blocked().get(name)
        if row is None or not _is_users(_importer()) or _real(name) is None:
            return None
        return importlib.machinery.ModuleSpec(name, _loader(_Refusing(row)), origin="hpushim")


def _importer() -> str:
    """The module whose import statement, or whose question for a spec, this is."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if not name.startswith(("importlib", "hpushim.shim.packages")):
            return str(name)
        frame = frame.f_back  # type: ignore[assignment]
    return "__main__"


def _is_users(module: str) -> bool:
    top = module.partition(".")[0]
    return top != "torch" and availability.is_users(top)


def _real(name: str) -> Any:
    return importlib.machinery.PathFinder.find_spec(name)


def _stand_in(name: str, top: str) -> Any:
    if _real(top) is not None:
        return None
    if not (_is_users(_importer()) or top in sys.modules):
        return None
    source = importlib.import_module(_STAND_INS[top])
    if name not in source.MODULES:
        return None
    return importlib.machinery.ModuleSpec(
        name, _loader(_Standing(source)), origin="hpushim", is_package=True
    )


def _loader(loader: Any) -> Any:
    return loader


class _Refusing:
    """The loader of a blocked package."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        row = self._row
        log.note(row.rule or "HPU709", f"{row.name} is not imported on HPU: {row.note}")
        raise ModuleNotFoundError(
            f"{row.rule or 'HPU709'} {row.name} is installed but cannot run on Gaudi: {row.note}",
            name=row.name,
        )


class _Standing:
    """The loader of a stand-in: fills the module from the names that its source lists."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        _standing.append(module.__name__)
        names = self._source.MODULES[module.__name__]
        module.__dict__.update({name: getattr(self._source, name) for name in names})
        module.__getattr__ = functools.partial(_missing, module.__name__)  # type: ignore[method-assign]
        log.warn(self._source.CODE, self._source.NOTE)


def _missing(module: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return importlib.import_module(f"{module}.{name}")
    except ImportError:
        raise AttributeError(
            f"HPU904 {module}.{name}: hpushim's stand-in for {module.partition('.')[0]} has no such name"
        ) from None
