"""Metrics of the bridge."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch.hpu.metrics.exceptions import (
    InvalidMetricDumpFileFormat,
    InvalidMetricDumpTrigger,
    MetricNotFound,
)
from habana_frameworks.torch.hpu.metrics.metrics import (
    metric_global,
    metric_localcontext,
    metrics_dump,
)
