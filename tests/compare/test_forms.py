"""The finder of device comparisons, held to the table of forms."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from forms import FORMS, FormCase

from hpushim.compare import Comparison, Form, find, find_named, finder, subjects
from hpushim.pycode.source import Source

pytestmark = pytest.mark.usefixtures("served")


def found(code: str) -> list[Comparison]:
    return find(Source(code))


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


@pytest.mark.parametrize(
    ("call", "sure"),
    [
        ("get_device(x)", True),
        ("x.get_device_type()", True),
        ("self.device_name()", True),
        ('operator.attrgetter("device.type")(x)', True),
        ('operator.attrgetter("kind")(x)', False),
        ("kind_of(x)", False),
    ],
)
def test_what_is_called_after_a_device_gives_one(call: str, sure: bool) -> None:
    (one,) = found(f'def f(self, x):\n    return {call} == "cuda"\n')
    assert one.sure is sure


def test_it_needs_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import hpushim.compare\n"
        "print([n for n in sys.modules.keys() - before if n.partition('.')[0] not in sys.stdlib_module_names | {'hpushim'}],"
        "[n for n in sys.modules if n.startswith('hpushim.') and not n.startswith(('hpushim.compare', 'hpushim.pycode'))])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"HPUSHIM": "off", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[] []"


def steps(lines: int) -> int:
    """The work on a program of texts that are made of one another."""
    names = "abcdefgh"
    source = Source("".join(
        f'{names[n % 8]} = {names[n % 7]} + f"{{{names[n % 5]}}}-{{{names[n % 3]}}}"\nseen.append(str({names[n % 8]}))\n'
        f'"cuda" in seen or {names[n % 8]}.endswith("cuda")\n'
        for n in range(lines)
    ))  # fmt: skip
    find(source)
    return source.steps.taken


def test_names_bound_to_one_another_do_not_multiply_the_work() -> None:
    assert steps(160) < 4.5 * steps(40)


@pytest.mark.parametrize("case", FORMS, ids=lambda case: case.name)
def test_those_that_name_cuda_are_found_alone(case: FormCase) -> None:
    source = Source(case.code)
    near = [(one.node, one.form, one.texts) for one in find_named(source)]
    every = [(one.node, one.form, one.texts) for one in find(source)]
    assert near == [one for one in every if one in near]
    named = [one for one in every if one[2] or isinstance(one[0], ast.Match)]
    assert [one for one in named if one not in near] == []


def test_calls_with_any_number_of_arguments_are_read() -> None:
    """Also such as Python would refuse: whoever writes is in the middle of it."""
    names = sorted({name for part in (finder, subjects) for table in vars(part).values() if isinstance(table, (frozenset, set, tuple)) for name in table if isinstance(name, str) and name.isidentifier()})  # fmt: skip
    assert "getattr" in names and len(names) > 20
    for name in names:
        for arguments in ("", "x.device", "'type'", "x, 'type'", "x, 'type', 'cuda'", "*x", "**x", "x, *y", "key=x.device"):  # fmt: skip
            code = "".join(f"if {called}({arguments}) == 'cuda': pass\n" for called in (name, f"x.{name}", f"x.device.type.{name}"))  # fmt: skip
            find(Source(code))
