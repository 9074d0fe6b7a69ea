"""The runs of a proof are forks of the process that holds torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import warm


@pytest.fixture(autouse=True)
def _served() -> Iterator[None]:
    with warm.serving():
        yield
