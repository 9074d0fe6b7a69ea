"""The proof on real repositories, as far as this machine has them (see real.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
import recipes
import trial

PLACE = recipes.Place.from_environment()
WORKLOADS = recipes.workloads()


@pytest.mark.skipif(
    PLACE is None,
    reason="HPUSHIM_CORPORA and HPUSHIM_CORPORA_DATA do not say where repositories are",
)
@pytest.mark.slow
@pytest.mark.parametrize("work", WORKLOADS, ids=lambda work: work.name)
def test_trains_as_on_cpu(work: recipes.Workload, tmp_path: Path) -> None:
    assert PLACE is not None
    verdict = trial.Trial(work, PLACE, tmp_path).prove()
    if verdict.skipped:
        pytest.skip(verdict.skipped)
    assert not verdict.wrong, "\n".join(verdict.wrong)


def test_recipes_are_complete() -> None:
    names = [work.name for work in WORKLOADS]
    assert len(set(names)) == len(names)
    for work in WORKLOADS:
        assert "<n>" in work.loss, work.name
        assert work.within <= 1e-4 or work.why, f"{work.name}: say why {work.within} is allowed"
