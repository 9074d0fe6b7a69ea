"""Runs in each Python that a shimmed process starts, before its program: first the ``sitecustomize`` that this one
hides, if there is one, then the shim.

Any interpreter may meet this file, also one without hpushim, so it needs nothing and says nothing.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from typing import Any


def _hidden() -> Any:
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  pathlib costs every child
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100
    return importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)


def _run(spec: Any) -> None:
    from importlib.util import module_from_spec

    sys.modules["sitecustomize"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def _begin() -> None:
    if os.environ.get("HPUSHIM", "").strip().lower() in ("", "0", "off"):
        return
    try:
        from hpushim.shim.run import children
    except ImportError:
        return
    children.begin()


try:
    _spec = _hidden()
    if _spec is not None and _spec.loader is not None:
        _run(_spec)
finally:
    _begin()
