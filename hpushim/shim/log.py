"""What the shim says: one line at the start of a run, each approximation once per process, on rank 0, with file and line.

``HPUSHIM_LOG``: ``quiet`` says only what goes wrong, ``summary`` adds a summary at exit, ``sites`` says a
note once for each calling line, ``trace`` on every call. Unset: the start line and each note once.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, NoReturn

from hpushim import callers, messages
from hpushim.errors import UnsupportedOnHpu

LEADER_VARIABLE = "HPUSHIM_LEADER"
"""The process id of the first process of a run, for its children."""

_lock = threading.Lock()
_said: set[tuple[str, ...]] = set()
_counts: dict[tuple[str, str, str], int] = {}
_unhandled: dict[str, dict[str, Any]] = {}


def start(text: str) -> None:
    """Says the one line of the start: by the first process of a run, not by its children."""
    if leads():
        line(text)


def leads() -> bool:
    """Whether this process is the first of its run. The first to ask is, and its children find it in their environment."""
    own = str(os.getpid())
    return os.environ.setdefault(LEADER_VARIABLE, own) == own


def line(text: str) -> None:
    """Says a line unless quiet was requested."""
    if messages.verbosity() != "quiet" and messages.reports_here():
        messages.emit(logging.INFO, text)


def note(code: str, text: str) -> None:
    """Says an approximation: once, or per line or call as ``HPUSHIM_LOG`` requests; counts it for the summary."""
    _say(logging.INFO, code, text)


def warn(code: str, text: str, at: tuple[str, int] | None = None) -> None:
    """Says something that may surprise: once, even when quiet; of the calling line, or of the one given."""
    _say(logging.WARNING, code, text, at)


def refuse(code: str, what: str, advice: str, at: tuple[str, int] | None = None) -> NoReturn:
    """Raises UnsupportedOnHpu for a call that has no meaning on Gaudi, with code, place and what to do instead."""
    raise refusal(code, what, advice, at)


def refusal(
    code: str, what: str, advice: str, at: tuple[str, int] | None = None
) -> UnsupportedOnHpu:
    """That error, for those who do not raise it here."""
    file, line = at or callers.user_site()
    place = f" {file}:{line}:" if line else ""
    return UnsupportedOnHpu(f"{code}{place} {what}; {advice}")


def unhandled(name: str) -> None:
    """Records a torch.cuda name that neither a patch nor the matrix knows."""
    file, line = callers.user_site()
    with _lock:
        entry = _unhandled.setdefault(name, {"name": name, "file": file, "line": line, "count": 0})
        entry["count"] += 1
    warn("HPU904", f"hpushim does not handle {name} on HPU; torch's own behaviour applies")


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
    """Starts the counts anew; for tests and for a new activation in the same process."""
    with _lock:
        _said.clear()
        _counts.clear()
        _unhandled.clear()


def is_first(*key: str) -> bool:
    """Whether this is the first call since the counts were started: for what is dear to find out."""
    with _lock:
        if key in _said:
            return False
        _said.add(key)
        return True


def wants_summary() -> bool:
    """Whether a summary at exit was requested."""
    return messages.verbosity() in ("summary", "sites", "trace")


def _say(level: int, code: str, text: str, at: tuple[str, int] | None = None) -> None:
    file, line = at or callers.user_site()
    site = f"{file}:{line}"
    mode = messages.verbosity()
    with _lock:
        key = (code, text, site)
        if mode not in ("sites", "trace") and not at:
            key = next((known for known in _counts if known[:2] == (code, text)), key)
        _counts[key] = _counts.get(key, 0) + 1
        once = (code, text, site) if mode == "sites" or at else (code, text)
        fresh = mode == "trace" or once not in _said
        _said.add(once)
    if fresh and messages.reports_here() and (level >= logging.WARNING or mode != "quiet"):
        messages.emit(level, f"{code} {site}: {text}" if code else f"{site}: {text}")
