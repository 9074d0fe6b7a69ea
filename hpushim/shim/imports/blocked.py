"""Imports of packages that are made for NVIDIA: refused, with the alternative.

A package that the matrix blocks fails to import, and ``importlib.util.find_spec`` does not find it, as if it were not
installed, so that the program's own fallback is taken; the message names the alternative. ``HPUSHIM_ALLOW_IMPORT=a,b``
lets packages through. This concerns the user's own code: torch, and libraries that look after themselves, see the truth.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from typing import Any, NoReturn

from hpushim import callers
from hpushim.shim import log, policy
from hpushim.shim.mechanisms import in_place
from hpushim.shim.mechanisms.in_place import Undo


def install() -> Undo:
    """Watches imports of packages, and questions whether they are there; returns how to undo it."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    undo_question = _answering(importlib.util.find_spec)

    def undo() -> bool:
        undo_question()
        sys.meta_path[:] = [one for one in sys.meta_path if one is not finder]
        return True

    return undo


def _answering(question: Any) -> Undo:
    """``importlib.util.find_spec`` of a blocked package is None: code that looks for a package imports it next."""
    function = in_place.plain_function(question)
    if function is None:
        return lambda: True
    original = in_place.clone(function)

    def find_spec(name: str, *args: Any, **kwargs: Any) -> Any:
        if _row_against(name) is not None:
            return None
        return original(name, *args, **kwargs)

    return in_place.exchange_code(function, find_spec)


class _Finder:
    """Refuses the packages that are blocked; finds nothing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        row = _row_against(name)
        if row is not None:
            _refuse(name, row)


def _row_against(name: str) -> Any:
    """The row that blocks this import by the user's code; None to let it pass."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in ("torch", "hpushim", "_hpushim"):
        return None
    if name in sys.modules or not policy.is_named(name):
        return None
    allowed = os.environ.get("HPUSHIM_ALLOW_IMPORT", "").replace(" ", "").split(",")
    row = _blocked().get(name)
    return row if row is not None and top not in allowed and by_user() else None


def by_user() -> bool:
    """Whether the import statement, or the question for a spec, that is running is the user's own."""
    top = callers.outside("importlib", "hpushim.shim").partition(".")[0]
    return top != "torch" and policy.is_users(top)


@functools.cache
def _blocked() -> dict[str, Any]:
    """Import names that the matrix blocks, with their rows."""
    from hpushim import matrix

    return {name: row for row in matrix.load().by_runtime("block") for name in row.names}


def _refuse(name: str, row: Any) -> NoReturn:
    code = row.rule or "HPU709"
    log.note(code, f"hpushim does not import {name} on HPU: {row.note}")
    instead = f" (on Gaudi: {row.target})" if row.target else ""
    raise ModuleNotFoundError(f"{code} {name} cannot run on Gaudi: {row.note}{instead}", name=name)
