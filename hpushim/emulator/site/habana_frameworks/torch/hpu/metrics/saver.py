"""Writing metrics to files, at the moments that PT_HPU_METRICS_DUMP_TRIGGERS names."""

from __future__ import annotations

import json
import os
from datetime import datetime
from enum import Enum
from pathlib import Path

from habana_frameworks.torch.hpu.metrics.exceptions import (
    InvalidMetricDumpFileFormat,
    InvalidMetricDumpTrigger,
)


class MetricDumpFormat(str, Enum):
    """How a metrics file is written."""

    json = "json"
    text = "text"


class MetricDumpTrigger(str, Enum):
    """When a metrics file is written."""

    process_exit = "process_exit"
    mark_step = "mark_step"
    metric_change = "metric_change"
    user = "user"


def _with_rank(file_name: str) -> Path:
    path = Path(file_name)
    rank = os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK"))
    return path if rank is None else path.with_name(f"{path.stem}-rank{rank}{path.suffix}")


def _unused(path: Path) -> Path:
    """``path``, or the first of path.1, path.2 … that does not exist: an earlier run's file is kept."""
    number, candidate = 0, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}.{number}")
    return candidate


class MetricSaver:
    """Collects records of metrics and writes one file."""

    def __init__(
        self, file_name="", triggers=(MetricDumpTrigger.user,), format=MetricDumpFormat.json
    ):
        from_environment = not file_name
        if from_environment:
            file_name = os.environ.get("PT_HPU_METRICS_FILE", "")
            triggers = self._triggers(
                os.environ.get("PT_HPU_METRICS_DUMP_TRIGGERS", "process_exit")
            )
            format = self._format(os.environ.get("PT_HPU_METRICS_FILE_FORMAT", "json"))
        self._path = _unused(_with_rank(file_name)) if file_name else None
        self._triggers_wanted = tuple(triggers)
        self._format_wanted = format
        self._records: list[dict[str, object]] = []

    @staticmethod
    def _triggers(listed):
        try:
            return [MetricDumpTrigger[one.strip()] for one in listed.split(",")]
        except KeyError as error:
            raise InvalidMetricDumpTrigger(f"PT_HPU_METRICS_DUMP_TRIGGERS names {error}") from None

    @staticmethod
    def _format(name):
        try:
            return MetricDumpFormat[name]
        except KeyError:
            raise InvalidMetricDumpFileFormat(
                f"PT_HPU_METRICS_FILE_FORMAT is {name!r}; use json or text"
            ) from None

    def process_trigger(self, trigger, metrics=()):
        """Record ``metrics`` if this saver listens to ``trigger``."""
        if self._path is None or trigger not in self._triggers_wanted:
            return
        now = datetime.now().isoformat()
        self._records += [
            {
                "metric_name": metric.name(),
                "triggered_by": trigger.value,
                "generated_on": now,
                "statistics": dict(metric.stats()),
            }
            for metric in metrics
        ]

    def close(self):
        """Write what was recorded; nothing recorded, no file."""
        if self._path is None or not self._records:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._format_wanted is MetricDumpFormat.json:
            text = json.dumps(self._records, indent=1)
        else:
            text = "\n".join(self._text(record) for record in self._records)
        self._path.write_text(text + "\n", encoding="utf-8")
        self._records = []

    @staticmethod
    def _text(record):
        lines = [
            f"Metric name: {record['metric_name']}",
            f"Triggered by: {record['triggered_by']}",
            f"Generated on: {record['generated_on']}",
            "Statistics:",
        ]
        return "\n".join(
            [*lines, *(f"\t{name}: {value}" for name, value in record["statistics"].items()), ""]
        )
