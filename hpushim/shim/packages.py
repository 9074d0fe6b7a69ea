"""Imports of packages that are made for NVIDIA: refused with the alternative, or answered by a stand-in.

A package that the matrix blocks fails to import, and ``importlib.util.find_spec`` does not find it, as if it were not
installed, so that the program's own fallback is taken; the message names the alternative. ``HPUSHIM_ALLOW_IMPORT=a,b``
lets packages through. ``apex`` and ``pynvml``, when they are not installed, are answered by small
modules over torch. Both concern the user's own code: torch, and libraries that look after themselves, see the truth.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, NoReturn

from hpushim.shim import availability, in_place, log
from hpushim.shim.in_place import Undo

_STAND_INS = {"apex": "hpushim.shim.stand_in_apex", "pynvml": "hpushim.shim.stand_in_pynvml"}

_standing: list[str] = []
"""The stand-ins that were imported."""


def install() -> Undo:
    """Watches imports of top-level packages; the undo also forgets the stand-ins that were imported."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    question: Any = importlib.util.find_spec
    undo_question = _answering(question)

    def undo() -> bool:
        undo_question()
        sys.meta_path[:] = [one for one in sys.meta_path if one is not finder]
        for name in _standing:
            sys.modules.pop(name, None)
        _standing.clear()
        return True

    return undo


def _answering(question: Any) -> Undo:
    """``importlib.util.find_spec`` of a blocked package is None: whoever asks first imports next."""
    function = in_place.plain_function(question)
    if function is None:
        return lambda: True
    original = in_place.clone(function)

    def find_spec(name: str, *args: Any, **kwargs: Any) -> Any:
        if _refused(name) is not None:
            return None
        return original(name, *args, **kwargs)

    return in_place.exchange_code(function, find_spec)


@functools.cache
def _text_of_blocked() -> bytes:
    """The rows of the matrix that block, as text: to read the whole matrix takes longer than most imports."""
    from hpushim.matrix import default_path

    rows = default_path().read_bytes().split(b"[[row]]")
    return b"".join(row for row in rows if b'"block"' in row)


@functools.cache
def _blocked() -> dict[str, Any]:
    """Import names that the matrix blocks, with their rows."""
    from hpushim import matrix

    return {name: row for row in matrix.load().by_runtime("block") for name in row.names}


def _refused(name: str) -> Any:
    """The row that blocks this import by the user's code; None to let it pass."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in ("torch", "hpushim", "_hpushim"):
        return None
    if name in sys.modules or f'"{name}"'.encode() not in _text_of_blocked():
        return None
    allowed = os.environ.get("HPUSHIM_ALLOW_IMPORT", "").replace(" ", "").split(",")
    row = _blocked().get(name)
    return row if row is not None and top not in allowed and _is_users(_importer()) else None


class _Finder:
    """Refuses the packages that are blocked, and finds the stand-ins of those that are not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.partition(".")[0]
        if top in _STAND_INS:
            return _stand_in(name, top)
        row = _refused(name)
        if row is not None:
            _refuse(name, row)
        return None


def _refuse(name: str, row: Any) -> NoReturn:
    code = row.rule or "HPU709"
    log.note(code, f"{name} is not imported on HPU: {row.note}")
    instead = f" (on Gaudi: {row.target})" if row.target else ""
    raise ModuleNotFoundError(f"{code} {name} cannot run on Gaudi: {row.note}{instead}", name=name)


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
        raise ModuleNotFoundError(_no_such(source, name), name=name)
    return importlib.machinery.ModuleSpec(
        name, _loader(_Standing(source)), origin="hpushim", is_package=True
    )


def _loader(loader: Any) -> Any:
    return loader


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
    file, line = log.user_site()
    top = name.partition(".")[0]
    return f"{source.CODE} {file}:{line}: {name}: hpushim's stand-in for {top} has no such name; {source.ADVICE}"
