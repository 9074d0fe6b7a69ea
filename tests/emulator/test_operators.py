"""A sample of torch's own operator list on hpu; ``operator_check.py`` runs the whole of it."""

from __future__ import annotations

import crossed
import operator_check
import pytest

pytest.importorskip("expecttest", reason="torch's operator list needs the package expecttest")
STEP = 12 if crossed.EVERY else 24


def test_a_sample_of_all_operators_equals_the_cpu():
    outcomes = list(operator_check.run(STEP, samples=2))
    failed = [item for item in outcomes if item[1] == "failed"]
    assert not failed, failed
    passed = [item for item in outcomes if item[1] == "passed"]
    assert len(passed) >= 0.8 * len(outcomes), outcomes


@pytest.mark.parametrize("kind", operator_check.KINDS)
def test_a_sample_of_all_operators_traced_and_over_layouts(kind):
    first = 6 * list(operator_check.KINDS).index(kind) % STEP
    outcomes = list(operator_check.run(STEP, 1, operator_check.KINDS[kind], first))
    failed = [item for item in outcomes if item[1] == "failed"]
    assert not failed, failed
    passed = [item for item in outcomes if item[1] == "passed"]
    assert len(passed) >= 0.5 * len(outcomes), outcomes
