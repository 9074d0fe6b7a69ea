"""How a process with an emulated device ends: what runs on threads of C++ is over before Python is.

Groups that nobody destroyed still have collectives under way, and callbacks in Python wait for some of them. A thread
that requests Python while it ends is unwound, which aborts the process, or waited for without end.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from typing import Any

from hpushim.emulator import compiling, device, ledger

_POLL_S = 0.05
_PATIENCE_S = 10.0
_registered_in = 0


def register() -> None:
    """Have this process end in order; idempotent. What the program itself does at exit comes first."""
    global _registered_in
    if _registered_in != os.getpid():
        _registered_in = os.getpid()
        atexit.register(_end, os.getpid())


def _end(process: int) -> None:
    if os.getpid() != process:  # a fork has none of the threads, and not its own ledger
        return
    native = device.load()
    try:  # Ctrl-C in one of them leaves out no other: groups that stay would be waited for without end
        ledger.note_present_groups()
        native.finish_backward_threads()
    finally:
        try:
            _end_groups(native)
        finally:
            ledger.write_at_exit()


def _end_groups(native: Any) -> None:
    """Wait for what is under way in groups of hccl, for as long as their time-outs allow, and close all groups."""
    if not hasattr(native, "end_collectives") or not native.end_collectives():
        return
    begun, reported = time.monotonic(), False
    try:
        while not native.collectives_ended(_POLL_S):
            if not reported and time.monotonic() - begun > _PATIENCE_S:
                reported = True
                compiling.say(
                    "hpushim: the program ended with unfinished collectives, which other ranks have not "
                    "joined (hccl, emulated); press Ctrl-C to stop waiting\n"
                )
    except KeyboardInterrupt:
        return
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized():
        with contextlib.suppress(Exception):
            distributed.destroy_process_group()
