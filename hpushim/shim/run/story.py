"""Has the first process of ``hpushim run`` end with the run's own story, for all of its processes.

Each process with an emulated device leaves its totals in a folder (:mod:`hpushim.emulator.leaving`); the first one adds them up when
it ends. Where nothing is emulated there is nothing to report.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hpushim import messages, showing

VARIABLE = "HPUSHIM_STORY"
"""The number of the first process of a run, a blank, and the folder where its processes leave their totals."""

_state = {"native": False, "failed": False}


def begin(*, native: bool) -> None:
    """Arranges the lines at the end of this process, unless it is part of another run or shall be quiet."""
    owner, _, _ = os.environ.get(VARIABLE, "").partition(" ")
    if messages.verbosity() == "quiet" or (owner and owner != str(os.getpid())):
        return
    if not owner:  # else this process has started itself anew
        folder = tempfile.mkdtemp(prefix="hpushim-")
        os.environ[VARIABLE] = f"{os.getpid()} {folder}"
    _state["native"] = native
    # Before torch: what is arranged later comes first, and so the emulated device has left its totals by then.
    atexit.register(_print, os.getpid())


def is_printed() -> bool:
    """Will this process print the summary of the run when it ends?"""
    return os.environ.get(VARIABLE, "").partition(" ")[0] == str(os.getpid())


def failed() -> None:
    """The program has ended with an error."""
    _state["failed"] = True


def _print(process: int) -> None:
    owner, _, folder = os.environ.get(VARIABLE, "").partition(" ")
    if os.getpid() != process or owner != str(process):
        return
    totals = _left_in(Path(folder))
    shutil.rmtree(folder, ignore_errors=True)
    if not totals or not messages.reports_here():
        return
    from hpushim.ledgers.story import Run, lines

    shown_lines = lines(
        Run(
            native=_state["native"],
            failed=_state["failed"],
            ledger=_ledger(),
            hidden=_hidden(),
            processes=totals,
        )
    )
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody listens any more
        sys.stderr.write("".join(f"hpushim: {_shown(line)}\n" for line in shown_lines))
        sys.stderr.flush()


def _left_in(folder: Path) -> list[dict[str, Any]]:
    """The totals that processes have left, rank 0 first."""
    found = []
    with contextlib.suppress(OSError):
        for file in sorted(folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError):
                found.append(json.loads(file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda one: one.get("rank") or 0)


def _ledger() -> str:
    """The file with the ledger of this run, as a word of a command line; empty where there is none."""
    path = os.environ.get("HPUSHIM_LEDGER", "")
    if not path or not Path(path).is_file():
        return ""
    with contextlib.suppress(ValueError):
        path = str(Path(path).relative_to(Path.cwd()))
    return shlex.quote(path)


def _hidden() -> str:
    for name, values in (("HPUSHIM_CUDA_AVAILABLE", ("0",)), ("CUDA_VISIBLE_DEVICES", ("", "-1"))):
        if os.environ.get(name, "unset").strip() in values:
            return f"{name}={os.environ[name].strip()}"
    return ""


def _shown(line: str) -> str:
    shown = showing.one_line(line)
    loud = shown.startswith("NOTHING") and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return f"\033[1;31m{shown}\033[0m" if loud else shown
