"""The catalogue of codes beside the rules is the one that the rules give."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from hpushim.engine.rules.catalogue import ROOMS, catalogue, codes, free, start
from hpushim.engine.rules.page import SECTIONS
from hpushim.engine.rules.registry import every_rule, home
from hpushim.engine.rules.rule import AnyRule
from hpushim.errors import HpushimError

FILE = Path(__file__).resolve().parent.parent / "codemods" / "README.md"


def test_the_catalogue_is_fresh() -> None:
    assert FILE.read_text(encoding="utf-8") == catalogue(), (
        "run: hpushim explain --all > codemods/README.md"
    )


def test_no_code_is_given_twice() -> None:
    found = codes()
    assert len(found) == len(set(found)), sorted(c for c in set(found) if found.count(c) > 1)
    assert all(re.fullmatch(r"HPU[0-8]\d\d", code) for code in found)


def test_a_folder_is_a_range_of_codes() -> None:
    for rule in every_rule():
        folder = home(rule).parent.name
        assert rule.code.startswith(f"HPU{ROOMS[folder]}"), f"{rule.code} in {folder}"


def test_a_new_rule_gets_a_free_code_and_something_to_begin_with() -> None:
    for folder in ROOMS:
        code = free(folder)
        assert code not in codes()
        rule, _, page = start(folder).partition(f"# codemods/{folder}/STEM.md\n")
        ast.parse(rule)
        assert f'code = "{code}"' in rule
        assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == list(SECTIONS)
    with pytest.raises(HpushimError, match="one of tool, devices"):
        free("nowhere")


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.__name__)
def test_costs_are_of_the_rules_own_codes(rule: AnyRule) -> None:
    costs = rule.costs
    named = [*costs.hours, *costs.none, *costs.numbers, *costs.speed, *costs.cpu, *costs.kernels]
    assert set(named) <= set(rule.codes())
    assert not set(costs.hours) & set(costs.none), "a code takes hours or has no counterpart"
    assert set(costs.kernels) <= set(costs.none), "a kernel has no counterpart"
