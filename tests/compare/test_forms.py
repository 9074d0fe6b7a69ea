"""The finder of device comparisons, held to the table of forms."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from forms import FORMS, FormCase

from hpushim.compare import Comparison, Form, find


def found(code: str) -> list[Comparison]:
    return find(ast.parse(code))


def verdict(one: Comparison) -> str:
    if one.handled:
        return "handled"
    return "device" if one.sure else "word"


@pytest.mark.parametrize("case", FORMS, ids=lambda case: case.name)
def test_form(case: FormCase) -> None:
    lines = case.lines or (case.code.count("\n"),)
    expected = [] if case.holds == "no" else [(line, case.holds) for line in lines]
    told = [(one.line, verdict(one)) for one in found(case.code)]
    if case.holds == "handled":
        told = [one for one in told if one[0] in lines][: len(lines)]
    assert told == expected


def test_names_are_unique() -> None:
    assert len({case.name for case in FORMS}) == len(FORMS) > 100


def test_what_is_told_of_a_comparison() -> None:
    one, two = found('if x.device.type in ("cpu", "cuda:1"):\n    y = TABLE[kind.device.type]\n')
    assert (one.form, ast.unparse(one.subjects[0])) == (Form.MEMBER, "x.device.type")
    assert [ast.unparse(text) for text in one.texts] == ["'cuda:1'"]
    assert (two.form, two.texts, two.line) == (Form.LOOKUP, (), 2)


def test_what_others_know_counts() -> None:
    tree = ast.parse('where == "cuda"\ndevice == "cuda"\n')
    told = {"where": True, "device": False}
    answers = [one.sure for one in find(tree, lambda node: told.get(getattr(node, "id", "")))]
    assert answers == [True, False]


def test_it_needs_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import hpushim.compare\n"
        "print([n for n in sys.modules.keys() - before if n.partition('.')[0] not in sys.stdlib_module_names | {'hpushim'}],"
        "[n for n in sys.modules if n.startswith('hpushim.') and not n.startswith('hpushim.compare')])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"HPUSHIM": "off", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[] []"


def questions(lines: int) -> int:
    """How often it is asked whether an expression is a device, in a program of texts made of one another."""
    names = "abcdefgh"
    code = "".join(
        f'{names[n % 8]} = {names[n % 7]} + f"{{{names[n % 5]}}}-{{{names[n % 3]}}}"\nseen.append(str({names[n % 8]}))\n'
        f'"cuda" in seen or {names[n % 8]}.endswith("cuda")\n'
        for n in range(lines)
    )
    asked: list[ast.expr] = []
    find(ast.parse(code), asked.append)  # type: ignore[arg-type, func-returns-value]
    return len(asked)


def test_names_bound_to_one_another_do_not_multiply_the_questions() -> None:
    short, long = questions(20), questions(80)
    assert long < 6 * short
