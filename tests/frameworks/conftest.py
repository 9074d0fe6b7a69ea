"""What each test of this folder has run goes into its report, for the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import framework_runs as running
import pytest


@pytest.fixture(autouse=True)
def noted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Hands over what the test has run, and how far from the CPU its numbers were."""
    running.RUNS.clear()
    running.APART.clear()
    yield
    record_property("runs", [list(run) for run in sorted(running.RUNS)])  # plain, for xdist
    record_property("apart", max(running.APART, default=None))
