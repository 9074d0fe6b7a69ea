"""The forms in which programs compare devices, of ``tests/compare``: the codemod turns or tells each that spells CUDA."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "compare"))
from forms import FORMS, FormCase

from hpushim.engine.base.text import ALONE
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Target


def settled(case: FormCase) -> Settled:
    return settle(
        f"import torch\n{case.code}", "python", "train.py", Context(Target(), load(), ALONE)
    )


SPELLED = [case for case in FORMS if case.holds == "device" and "cuda" in case.code.lower()]


@pytest.mark.parametrize("case", SPELLED, ids=lambda case: case.name)
def test_a_comparison_is_turned_or_told(case: FormCase) -> None:
    result = settled(case)
    assert result.findings
    assert not [found for found in result.findings if found.code == "HPU004"]


@pytest.mark.parametrize(
    "case", [case for case in FORMS if case.holds != "device"], ids=lambda case: case.name
)
def test_what_is_none_or_knows_gaudi_stays(case: FormCase) -> None:
    assert settled(case).text == f"import torch\n{case.code}"


def test_nearly_every_form_spells_cuda() -> None:
    assert len(SPELLED) >= 85
