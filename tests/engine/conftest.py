"""Toy rules instead of the real ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import toys


@pytest.fixture
def rules() -> Iterator[pytest.MonkeyPatch]:
    """Only the toy rules; ``toys.use(rules, …)`` chooses among them."""
    with pytest.MonkeyPatch.context() as patch:
        toys.use(patch, *toys.EVERY)
        yield patch
