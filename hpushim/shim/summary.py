"""The summary at the end of a run, when ``HPUSHIM_LOG`` requests one: once, by the first process, for all of them.

Each process leaves its notes in a folder that the first one made; the first one adds them up when it ends. A process
that is killed leaves none.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import multiprocessing.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hpushim.shim import log

FOLDER_VARIABLE = "HPUSHIM_SUMMARY"
"""Where the processes of a run leave their notes."""


def at_exit() -> None:
    """Arranges the summary at the end of this process and of those that multiprocessing starts from it."""
    if log.leads() and FOLDER_VARIABLE not in os.environ:
        os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="hpushim-")
    atexit.register(_end)
    # A process of multiprocessing ends without atexit, and forgets what was arranged before its target runs.
    multiprocessing.util.register_after_fork(log, _in_child)
    if multiprocessing.parent_process() is not None:
        _end_with_multiprocessing()


def _in_child(_: Any) -> None:
    log.forget_counts()
    _end_with_multiprocessing()


def _end_with_multiprocessing() -> None:
    multiprocessing.util.Finalize(None, _end, exitpriority=0)


def _end() -> None:
    folder = Path(os.environ.get(FOLDER_VARIABLE, ""))
    if not folder.is_dir() or folder == Path():
        return
    if not log.leads():
        (folder / str(os.getpid())).write_text(json.dumps(log.fired()), encoding="utf-8")
        return
    left = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.iterdir())]
    shutil.rmtree(folder, ignore_errors=True)
    log.line(text_of([log.fired(), *left]))


def text_of(processes: list[list[dict[str, Any]]]) -> str:
    """The summary of the notes of some processes, the most frequent first."""
    counts: dict[tuple[str, str], tuple[int, str]] = {}
    for rows in processes:
        for row in rows:
            count, site = counts.get((row["code"], row["text"]), (0, row["site"]))
            counts[row["code"], row["text"]] = (count + row["count"], site)
    plural = "" if len(processes) == 1 else f", {len(processes)} processes"
    if not counts:
        return f"summary of this run{plural}: nothing was approximated"
    ordered = sorted(counts.items(), key=lambda item: -item[1][0])
    lines = [f"{n:6d}  {code} {text} (first at {site})" for (code, text), (n, site) in ordered]
    return f"summary of this run{plural}:\n" + "\n".join(lines)
