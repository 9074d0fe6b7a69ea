"""What the shim says: one line at the start of a run, each approximation once per process, on rank 0, with file and line.

``HPUSHIM_LOG``: ``quiet`` says only what goes wrong, ``summary`` adds a summary at exit, ``sites`` says a
note once for each calling line, ``trace`` on every call. Unset: the start line and each note once.
Everything goes through the logger ``hpushim``, to standard error unless the program gave it a handler.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any, NoReturn

from hpushim.errors import UnsupportedOnHpu

logger = logging.getLogger("hpushim")

_PACKAGE = __name__.rsplit(".", 2)[0]
# Frames of these belong to torch or the standard library's plumbing, not to the user's code.
_NOT_USER = (
    _PACKAGE, "_hpushim", "torch", "habana_frameworks", "importlib", "contextlib", "functools",
    "runpy", "threading", "unittest", "concurrent", "typing_extensions", "warnings",
)  # fmt: skip

LEADER_VARIABLE = "HPUSHIM_LEADER"
"""The process id of the first process of a run, for its children."""

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

_lock = threading.Lock()
_said: set[tuple[str, ...]] = set()
_counts: dict[tuple[str, str, str], int] = {}
_unhandled: dict[str, dict[str, Any]] = {}


def user_site() -> tuple[str, int]:
    """File and line of the innermost frame that is the user's own; ``("<unknown>", 0)`` without one."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0] not in _NOT_USER and not frame.f_code.co_filename.startswith("<"):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "<unknown>", 0


def start(text: str) -> None:
    """Says the one line of the start: by the first process of a run, not by its children."""
    if leads():
        line(text)


def leads() -> bool:
    """Whether this process is the first of its run. The first to ask is, and its children find it in their environment."""
    own = str(os.getpid())
    return os.environ.setdefault(LEADER_VARIABLE, own) == own


def line(text: str) -> None:
    """Says a line unless quiet was asked for."""
    if _verbosity() != "quiet" and _speaks():
        _emit(logging.INFO, text)


def note(code: str, text: str) -> None:
    """Says an approximation: once, or per line or call as ``HPUSHIM_LOG`` asks; counts it for the summary."""
    _say(logging.INFO, code, text)


def warn(code: str, text: str) -> None:
    """Says something that may surprise: once, even when quiet."""
    _say(logging.WARNING, code, text)


def refuse(code: str, what: str, advice: str) -> NoReturn:
    """Raises UnsupportedOnHpu for a call that has no meaning on Gaudi, with code, place and what to do instead."""
    file, line = user_site()
    raise UnsupportedOnHpu(f"{code} {file}:{line}: {what}; {advice}")


def unhandled(name: str) -> None:
    """Records a torch.cuda name that neither a patch nor the matrix knows."""
    file, line = user_site()
    with _lock:
        entry = _unhandled.setdefault(name, {"name": name, "file": file, "line": line, "count": 0})
        entry["count"] += 1
    warn("HPU904", f"{name} has no answer on HPU; torch's own behaviour applies")


def fired() -> list[dict[str, Any]]:
    """The notes and warnings so far: code, text, first file and line, how often."""
    with _lock:
        return [
            {"code": code, "text": text, "site": site, "count": n}
            for (code, text, site), n in sorted(_counts.items())
        ]


def unhandled_calls() -> list[dict[str, Any]]:
    """The torch.cuda names that were called without an answer: name, file, line, count."""
    with _lock:
        return [dict(entry) for entry in _unhandled.values()]


def forget_counts() -> None:
    """In a forked process: the counts so far are its parent's."""
    with _lock:
        _counts.clear()


def forget() -> None:
    """Starts the books anew; for tests and for a new activation in the same process."""
    with _lock:
        _said.clear()
        _counts.clear()
        _unhandled.clear()


def wants_summary() -> bool:
    """Whether a summary at exit was asked for."""
    return _verbosity() in ("summary", "sites", "trace")


def _say(level: int, code: str, text: str) -> None:
    file, line = user_site()
    site = f"{file}:{line}"
    mode = _verbosity()
    with _lock:
        first = next((key for key in _counts if key[:2] == (code, text)), (code, text, site))
        key = first if mode not in ("sites", "trace") else (code, text, site)
        _counts[key] = _counts.get(key, 0) + 1
        once = (code, text, site) if mode == "sites" else (code, text)
        fresh = mode == "trace" or once not in _said
        _said.add(once)
    if fresh and _speaks() and (level >= logging.WARNING or mode != "quiet"):
        _emit(level, f"{code} {site}: {text}" if code else f"{site}: {text}")


def _emit(level: int, text: str) -> None:
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("hpushim: %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    logger.log(level, text)


def _verbosity() -> str:
    return os.environ.get("HPUSHIM_LOG", "").strip().lower()


def _speaks() -> bool:
    """Only rank 0 speaks; a process outside a distributed run is rank 0."""
    for variable in _RANKS:
        if os.environ.get(variable):
            return os.environ[variable] == "0"
    distributed = sys.modules.get(
        "torch.distributed"
    )  # mp.spawn hands its rank over as an argument
    started = getattr(distributed, "is_initialized", None)
    return started is None or not started() or distributed.get_rank() == 0  # type: ignore[union-attr]
