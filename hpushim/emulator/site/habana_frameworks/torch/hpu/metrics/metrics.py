"""Counters of the bridge, answered from the emulator's ledger (compilations and fallbacks are emulated)."""

from __future__ import annotations

import abc
import atexit
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from habana_frameworks.torch.hpu.metrics.exceptions import MetricNotFound
from habana_frameworks.torch.hpu.metrics.saver import (
    MetricDumpFormat,
    MetricDumpTrigger,
    MetricSaver,
)
from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId

from hpushim.emulator import ledger


def bool_helper(value):
    """True for the spellings of yes."""
    return value.lower() in ("y", "yes", "t", "true", "on", "1")


class Metric(abc.ABC):
    """A counter that runs from :meth:`start` to :meth:`stop`."""

    _zero: Any = None
    _end: Any = None

    def __init__(self):
        self._metric_change_callback = None
        self.start()

    @abc.abstractmethod
    def name(self) -> str:
        """The metric's name."""

    @abc.abstractmethod
    def stats(self) -> Sequence[tuple[str, int]]:
        """(name, value) pairs since the start or the last reset."""

    def _read(self) -> Any:
        return {}

    def _since(self) -> tuple[Any, Any]:
        return self._zero, self._read() if self._end is None else self._end

    def reset(self) -> None:
        """Start from zero."""
        self._zero = self._read()

    def start(self) -> None:
        """Begin to count, or go on after :meth:`stop`."""
        if self._zero is None:
            self._zero = self._read()
        self._end = None

    def stop(self) -> None:
        """Hold the counts as they are."""
        if self._end is None:
            self._end = self._read()

    def on_metric_change(self, callback) -> None:
        """Call ``callback(timestamp, name, stats)`` at each change."""
        self._metric_change_callback = callback

    def notify(self, timestamp, event_params):
        """Report a change."""
        if self._metric_change_callback:
            self._metric_change_callback(timestamp, self.name(), self.stats())


class GraphCompilationMetric(Metric):
    """Compilations that Gaudi would have made; their time is not emulated and reads 0."""

    def name(self):
        return "graph_compilation"

    def _read(self):
        return ledger.snapshot()["graphs"]

    def stats(self):
        zero, now = self._since()
        return [("TotalNumber", now - zero), ("TotalTime", 0), ("AvgTime", 0)]


class CpuFallbackMetric(Metric):
    """Operators that Gaudi would have run on the CPU."""

    def name(self):
        return "cpu_fallback"

    def _read(self):
        found = ledger.snapshot()
        return found["cpu_fallbacks"], found["fallback_operators"]

    def stats(self):
        (zero, before), (now, after) = self._since()
        changed = {
            op: count - before.get(op, 0)
            for op, count in after.items()
            if count != before.get(op, 0)
        }
        return [("TotalNumber", now - zero), ("FallbackOps", changed)]


class MemoryDefragmentationMetric(Metric):
    """Always zero: emulated memory is not defragmented."""

    def name(self):
        return "memory_defragmentation"

    def stats(self):
        return [(name, 0) for name in ("TotalNumber", "TotalSuccessful", "AvgTime", "MaxTime")]


class RecipeCacheMetric(Metric):
    """Always empty: there is no recipe cache."""

    def name(self):
        return "recipe_cache"

    def stats(self):
        return [("TotalHit", 0), ("RecipeHit", {}), ("TotalMiss", 0), ("RecipeMiss", {})]


class MetricManager:
    """The metrics by name, one global instance of each."""

    def __init__(self) -> None:
        self._types: dict[str, type[Metric]] = {}
        self._global: list[Metric] = []
        self._saver = MetricSaver()
        EventDispatcher.instance().subscribe(EventId.MARK_STEP, self._at_mark)
        atexit.register(self._at_exit)

    def _at_mark(self, timestamp, params):
        self._saver.process_trigger(MetricDumpTrigger.mark_step, self._global)

    def _at_exit(self):
        self._saver.process_trigger(MetricDumpTrigger.process_exit, self._global)
        self._saver.close()

    def register(self, name, metric_class):
        """Add a kind of metric."""
        assert name not in self._types, f"Metric with given name ({name}) is already registered"
        self._types[name] = metric_class
        self._global.append(metric_class())

    def get_global_metric(self, name: str):
        """The process's metric of this name, or None."""
        return next((metric for metric in self._global if metric.name() == name), None)

    def get_local_metric(self, name: str):
        """A new metric of this name; MetricNotFound if there is none."""
        if name not in self._types:
            raise MetricNotFound(f"Metric with given name ({name}) doesn't exist.")
        return self._types[name]()

    def store_global_metrics(self, file_name, format):
        """Write the global metrics now."""
        saver = MetricSaver(file_name, triggers=[MetricDumpTrigger.user], format=format)
        saver.process_trigger(MetricDumpTrigger.user, self._global)
        saver.close()


_manager: MetricManager | None = None


def _metrics() -> MetricManager:
    global _manager
    if _manager is None:
        _manager = MetricManager()
        _manager.register("graph_compilation", GraphCompilationMetric)
        _manager.register("cpu_fallback", CpuFallbackMetric)
        _manager.register("memory_defragmentation", MemoryDefragmentationMetric)
        _manager.register("recipe_cache", RecipeCacheMetric)
    return _manager


def metric_global(name: str) -> Metric:
    """The process's metric of this name (``graph_compilation``, ``cpu_fallback`` …), or None."""
    return _metrics().get_global_metric(name)


@contextmanager
def metric_localcontext(name: str) -> Metric:
    """A metric that counts within the block."""
    metric = _metrics().get_local_metric(name)
    try:
        yield metric
    finally:
        metric.stop()


def metrics_dump(file_name: str, format: MetricDumpFormat = MetricDumpFormat.json) -> None:
    """Write the global metrics to ``file_name``."""
    _metrics().store_global_metrics(file_name, format)
