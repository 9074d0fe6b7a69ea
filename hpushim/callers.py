"""Whose call is this? The one walk up the stack that messages, the policy and the import hooks share.

A frame belongs to a module by the name in its globals. What is between a call of the user's and the shim (our own
frames, the trampoline in torch's function, the standard library's plumbing) is passed over here and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

_OURS = "hpushim.shim"
# Frames of these belong to torch or to the standard library, not to the user's code.
_NOT_USER = frozenset((
    *sys.stdlib_module_names, __name__.partition(".")[0], "hpushim", "_hpushim", "torch", "habana_frameworks", "typing_extensions",
)) - {"__main__"}  # fmt: skip

_here = globals()


def user_site() -> tuple[str, int]:
    """File and line of the innermost frame that is the user's own; ``("<unknown>", 0)`` without one."""
    for name, frame in _outwards():
        if name.partition(".")[0] not in _NOT_USER and _is_written(name, frame):
            return frame.f_code.co_filename, frame.f_lineno
    return "<unknown>", 0


def _is_written(name: str, frame: FrameType) -> bool:
    """Whether somebody wrote this code: it is in a file, or was typed or given to ``python -c``."""
    if not frame.f_code.co_filename.startswith("<"):
        return True
    return name == "__main__" and "__file__" not in frame.f_globals


def of_patched(target_module: str) -> str:
    """The module that called a patched function of ``target_module``: the first one outside the shim and its trampoline."""
    inside = True
    for name, _ in _outwards():
        if inside:
            # First our own frames, then the one trampoline, which runs in the target's module.
            inside = name.startswith(_OURS)
            if not inside and name != target_module:
                return name
        else:
            return name
    return "__main__"


def outside(*machinery: str) -> str:
    """The first module whose name begins with none of these; ``__main__`` when all do."""
    return next((name for name, _ in _outwards() if not name.startswith(machinery)), "__main__")


def through(*modules: str) -> bool:
    """Whether this call came through one of these modules, given by name or by the end of it (``.pool``)."""
    return any(name in modules or name.endswith(modules) for name, _ in _outwards())


def _outwards() -> Iterator[tuple[str, FrameType]]:
    """The frames of this thread outside this module, innermost first, each with its module's name."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is not _here:
            yield str(frame.f_globals.get("__name__") or ""), frame
        frame = frame.f_back
