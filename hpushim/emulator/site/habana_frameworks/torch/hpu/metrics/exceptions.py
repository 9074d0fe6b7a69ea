"""Errors of the metrics."""

from __future__ import annotations


class MetricNotFound(Exception):
    """No metric of this name."""


class InvalidMetricDumpFileFormat(Exception):
    """A format other than json and text."""


class InvalidMetricDumpTrigger(Exception):
    """A trigger other than process_exit, mark_step, metric_change and user."""
