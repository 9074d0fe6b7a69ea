"""What cannot be sent to another process: an error where it can be caught, never a wait.

``Queue.put`` pickles in a thread of its own, and a process that ends in an error sends nothing: in both cases the receiver
would wait for good. There the error itself is sent, and raised where the object would have arrived. Standard library only.
"""

from __future__ import annotations

import multiprocessing.context
import multiprocessing.process
import threading
from collections.abc import Callable
from typing import Any, NoReturn

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


def refuse(error: Exception) -> Reduced:
    """To be returned by a reduction of pickle's: raises ``error`` here, or has the receiver raise it."""
    if multiprocessing.context.get_spawning_popen() is not None:
        raise error  # an argument of a process that is being started
    in_feeder = threading.current_thread().name.startswith("QueueFeederThread")
    if in_feeder or multiprocessing.process.parent_process() is not None:
        return _arrived, (error,)
    raise error


def _arrived(error: Exception) -> NoReturn:
    raise error
