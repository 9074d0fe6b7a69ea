"""The list of rules: what is known of each before it is loaded."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from hpushim.engine.base.code import Code
from hpushim.engine.rules.listed import Listed
from hpushim.engine.rules.rule import Rule
from hpushim.engine.rules.wants import ProjectFact, Wants


class Asking(Rule):
    """A rule whose fact is found by a function of another module."""

    HPU999 = Code("asking")
    wants: ClassVar[Wants] = Wants(facts=(ProjectFact("elsewhere", json.loads),))


def test_a_fact_away_from_its_function_is_an_error_and_no_end_of_the_list() -> None:
    with pytest.raises(LookupError, match="elsewhere"):
        tuple(map(Listed.of, (Asking,)))
