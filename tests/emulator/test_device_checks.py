"""The table of checks names tests that exist, and enough of them; ``device_checks.py`` runs and prints it."""

from __future__ import annotations

import ast
from functools import cache

import device_checks
import pytest

NAMED = {
    f"{subject}: {check}": tests
    for subject, checks in device_checks.CHECKS.items()
    for check, tests in checks.items()
}


@cache
def functions(file: str) -> list[str]:
    tree = ast.parse((device_checks.HERE / file).read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_the_study_has_its_63_checks_and_more():
    assert len(NAMED) >= 63


@pytest.mark.parametrize("check", NAMED)
def test_each_check_names_a_test(check):
    file, _, rest = NAMED[check].partition("::")
    assert rest.partition(":")[0] in functions(file)


@pytest.mark.parametrize("area", device_checks.BEHAVIOURS)
def test_each_behaviour_is_counted_by_tests(area):
    for entry in device_checks.BEHAVIOURS[area]:
        file, _, rest = entry.partition("::")
        begins = rest.partition(":")[0]
        assert any(name.startswith(begins or "test_") for name in functions(file)), entry


def test_outcomes_are_read_by_function_and_parameter():
    outcomes = device_checks.Outcomes()
    outcomes.found = {
        "a.py::test_x[gpt-adam]": "passed",
        "a.py::test_x[gpt-adamw]": "failed",
        "a.py::test_xy": "skipped",
    }
    outcomes.reasons = {"a.py::test_xy": "no such thing"}
    assert device_checks.verdict(outcomes, "a.py::test_x:adam") == ("passed", "1 test")
    assert device_checks.verdict(outcomes, "a.py::test_x")[0] == "failed"
    assert device_checks.verdict(outcomes, "a.py::test_xy") == ("skipped", "no such thing")
    assert device_checks.verdict(outcomes, "a.py::test_z")[0] == "missing"
    assert len(outcomes.of("a.py::test_x", begins=True)) == 3 and len(outcomes.of("a.py")) == 3
