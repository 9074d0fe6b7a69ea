"""Runs in each Python of a run that is recorded: first the ``sitecustomize`` that this one hides, then the recorder."""

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
    if not os.environ.get("HPUSHIM_PROVE"):
        return
    try:
        from hpushim.prove.recorder import enable
    except ImportError:
        return
    enable.begin()


# The recorder is before what may replace this process (the shim's own start-up does, for scripts that compare devices).
_begin()
_spec = _hidden()
if _spec is not None and _spec.loader is not None:
    _run(_spec)
