"""Events of the bridge: subscribe to step marks, compilations and fallbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum


class EventId(Enum):
    """What can be subscribed to."""

    GRAPH_COMPILATION = 0
    CPU_FALLBACK = 1
    MEMORY_DEFRAGMENTATION = 2
    MARK_STEP = 3
    PROCESS_EXIT = 4
    DEVICE_ACQUIRED = 5
    CACHE_HIT = 6
    CACHE_MISS = 7


class EventDispatcher:
    """One per process; callbacks get the time and a list of (name, value)."""

    _the_instance: EventDispatcher | None = None

    def __init__(self) -> None:
        self._subscribers: dict[EventId, dict[int, Callable[..., object]]] = {}
        self._next = 0

    @classmethod
    def instance(cls) -> EventDispatcher:
        """The process's dispatcher."""
        if cls._the_instance is None:
            cls._the_instance = cls()
        return cls._the_instance

    def subscribe(self, event: EventId, callback: Callable[..., object]) -> tuple[EventId, int]:
        """Call ``callback(timestamp, params)`` at each ``event``; returns the handle for unsubscribe."""
        self._next += 1
        self._subscribers.setdefault(event, {})[self._next] = callback
        return event, self._next

    def unsubscribe(self, handle: tuple[EventId, int]) -> None:
        """Stop the calls that ``subscribe`` started."""
        event, number = handle
        self._subscribers.get(event, {}).pop(number, None)

    def publish(self, event: EventId, params: Sequence[tuple[str, str]]) -> None:
        """Call the subscribers of ``event``."""
        for callback in list(self._subscribers.get(event, {}).values()):
            callback(datetime.now(), list(params))
