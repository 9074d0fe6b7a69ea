"""What cannot be sent to another process: an error where it can be caught, never a wait.

``Queue.put`` pickles in a thread of its own, and a process that ends in an error sends nothing: in both cases the receiver
would wait for good. There the error itself is sent, and raised where the object would have arrived. Pools of processes are
left alone: they catch the error in the worker and send it themselves, and one that arrived raising would end their receiver.
"""

from __future__ import annotations

import multiprocessing.context
import multiprocessing.process
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from hpushim import callers

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]

# The standard library's pools, and loky's, wherever a package carries it along.
_POOLS = ("multiprocessing.pool", "concurrent.futures.process", ".process_executor")


def refuse(error: Exception) -> Reduced:
    """To be returned by a reduction of pickle's: raises ``error`` here, or has the receiver raise it."""
    if multiprocessing.context.get_spawning_popen() is not None:
        raise error  # an argument of a process that is being started
    if callers.through(*_POOLS):
        raise error
    in_feeder = threading.current_thread().name.startswith("QueueFeederThread")
    if in_feeder or multiprocessing.process.parent_process() is not None:
        return _arrived, (error,)
    raise error


def _arrived(error: Exception) -> NoReturn:
    raise error
