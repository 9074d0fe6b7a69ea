"""The import hook: the user's own modules are rewritten as they are loaded (``hpushim run`` and its children), or, after a
plain ``import hpushim``, those that compare devices are named. So are those that cannot be rewritten.

Rewritten code is never written to ``__pycache__``; every other module loads as ever. The few libraries that the matrix's
policy names are rewritten as well.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import os
import sys
import threading
import zipimport
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from hpushim.shim import log, policy
from hpushim.shim.run import compiling, own

REWRITE_VARIABLE = "HPUSHIM_REWRITE"
"""Set to 1 by ``hpushim run``: child processes rewrite as well."""

_reported: set[str] = set()


def install(*, rewriting: bool = True) -> None:
    """Has modules that are imported from now on rewritten, or only named. Installing twice is installing once."""
    found = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if found is None:
        found = _Finder()
        sys.meta_path.insert(0, found)
        # For what finders before ours have found.
        atexit.unregister(name_loaded)
        atexit.register(name_loaded)
    found.rewriting = found.rewriting or rewriting
    if rewriting:
        os.environ[REWRITE_VARIABLE] = "1"
        compiling.install()


def uninstall(*, naming_only: bool = False) -> None:
    """Takes the hook down; with ``naming_only`` where it rewrites nothing."""
    sys.meta_path[:] = [
        one
        for one in sys.meta_path
        if not isinstance(one, _Finder) or (naming_only and one.rewriting)
    ]
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        atexit.unregister(name_loaded)
        compiling.uninstall()


def is_inherited() -> bool:
    """Whether the ``hpushim run`` that this process comes from requested rewriting."""
    return os.environ.get(REWRITE_VARIABLE) == "1"


def name_loaded() -> None:
    """Names the user's own modules that are loaded, compare devices and were not rewritten, the main script among them."""
    rewriting = any(isinstance(one, _Finder) and one.rewriting for one in sys.meta_path)
    for name, module in list(sys.modules.items()):
        if own.is_never(name):  # nearly all of them; a module's own name takes longer to read
            continue
        file = _source_of(module)
        loader = getattr(module, "__loader__", None)
        if file is not None and not compiling.is_rewritten(file):
            _name(file, _by_another(loader) if rewriting else "")


def _by_another(loader: object) -> str:
    kind = type(loader).__qualname__
    return (
        f"it was loaded by {kind} instead of Python's loader and cannot be rewritten: use "
        "`is_cuda`, or migrate the file"
    )


def _source_of(module: Any) -> str | None:
    """The source file of one of the user's modules; None for any other."""
    if not isinstance(module, ModuleType):
        return None
    name = getattr(getattr(module, "__spec__", None), "name", module.__name__)
    file = vars(module).get("__file__")
    if not isinstance(file, str) or not file.endswith(".py") or own.is_never(name):
        return None
    return file if own.is_own_file(file) else None


def _name(file: str, why: str) -> None:
    """Says once where a file compares; ``why`` it was not rewritten, if that is not plain."""
    if file in _reported:
        return
    _reported.add(file)
    try:
        found = compiling.compared_lines(file)
    except OSError:
        return
    if not found:
        return
    lines = ", ".join(map(str, found[1:8])) + (" …" if len(found) > 8 else "")
    log.warn(
        "HPU107",
        f"compares a device with 'cuda', which is 'hpu' here{f' (also line {lines})' if lines else ''}; "
        + (why or "`hpushim run` rewrites such comparisons, `hpushim migrate` does so for good"),
        at=(file, found[0]),
    )


class _Finder:
    """Comes first and lets the others find: what they find of the user's own files is read by our loader."""

    def __init__(self) -> None:
        self.rewriting = False
        self._busy = threading.local()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if own.is_never(name) or getattr(self._busy, "name", None) == name:
            return None
        outer, self._busy.name = getattr(self._busy, "name", None), name
        try:
            spec = next(self._found(name, path, target), None)
        finally:
            self._busy.name = outer
        # To decide about one module others are imported: these load as ever.
        if spec is None or not spec.has_location or getattr(self._busy, "deciding", False):
            return spec
        self._busy.deciding = True
        try:
            if self._is_ours(name, spec.origin):
                self._take(spec)
        finally:
            self._busy.deciding = False
        return spec

    def _take(self, spec: Any) -> None:
        if self.rewriting and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = compiling.Loader(spec.loader.name, spec.loader.path)
        elif self.rewriting and type(spec.loader) is zipimport.zipimporter:
            spec.loader = compiling.Archive(f"{spec.loader.archive}{os.sep}{spec.loader.prefix}")
        else:
            self._name(spec)

    def _found(self, name: str, path: Any, target: Any) -> Iterator[Any]:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                yield spec

    def _is_ours(self, name: str, file: str) -> bool:
        if own.is_own_file(Path(file)):
            return policy.is_users(name.partition(".")[0], silently=True)
        return self.rewriting and policy.compares_devices(name.partition(".")[0])

    def _name(self, spec: Any) -> None:
        if not self.rewriting:
            _name(spec.origin, "")
        elif spec.origin.endswith(".py") and Path(spec.origin).is_file():
            _name(spec.origin, _by_another(spec.loader))
        elif _holds_cuda(spec):
            log.warn(
                "HPU107",
                "is loaded without its source file: comparisons with 'cuda' in it, if any, are not rewritten",
                at=(spec.origin, 0),
            )


def _holds_cuda(spec: Any) -> bool:
    """Whether a module without a source file mentions cuda at all."""
    read: Any = getattr(spec.loader, "get_data", None)
    try:
        return spec.origin.endswith((".pyc", ".py")) and b"cuda" in read(spec.origin).lower()
    except (OSError, TypeError):
        return False
