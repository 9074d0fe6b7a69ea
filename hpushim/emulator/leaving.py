"""What a process of ``hpushim run`` leaves for the run's last lines: one small file in the folder that the first process made."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "HPUSHIM_STORY"
"""The number of the first process of a run, a blank, and the folder where its processes leave their totals."""

_MOST = 20  # dtypes, causes and operators that are named


def folder() -> Path | None:
    """Where this run's processes leave their totals; None outside of ``hpushim run``."""
    _, _, named = os.environ.get(FOLDER_VARIABLE, "").partition(" ")
    return Path(named) if named and Path(named).is_dir() else None


def begin() -> None:
    """Leave word that this process has a device, for one that ends before it can leave its totals (killed, ``os._exit``).

    Workers of multiprocessing, as those of a DataLoader, do no work of their own on the device, or leave their totals.
    """
    where = folder()
    if where is not None and multiprocessing.parent_process() is None:
        with contextlib.suppress(OSError):
            (where / f"{os.getpid()}.json").write_text('{"unfinished": true}', encoding="utf-8")


def leave(
    ledger: dict[str, Any], rank: int | None, first_elsewhere: str, *, unfinished: bool = False
) -> None:
    """Write the totals of this process. What cannot be written is left out: a run never fails by its story."""
    where = folder()
    if where is None:
        return
    kept: dict[str, Any] = {
        name: value for name, value in ledger.items() if isinstance(value, (int, str, bool))
    }
    for name in ("compute_operators", "fallback_operators", "parameters"):
        kept[name] = dict(list(ledger[name].items())[:_MOST])
    kept["recompilation_causes"] = ledger["recompilation_causes"][:_MOST]
    kept["demoted"] = sorted({one["what"] for one in ledger["demotion_lines"]})[:_MOST]
    kept["refused"] = ledger["objections"][:_MOST]
    kept["steps"] = ledger["steps"]
    kept["rank"] = rank
    kept["unfinished"] = unfinished
    kept["first_elsewhere"] = first_elsewhere
    with contextlib.suppress(OSError):
        written = where / f"{os.getpid()}.part"
        written.write_text(json.dumps(kept), encoding="utf-8")
        written.replace(where / f"{os.getpid()}.json")  # whoever reads it now finds the whole
