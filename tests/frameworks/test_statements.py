"""Every statement of the libraries' pages has what holds it: a test that exists, a finding that is given, a row that is there; and
every test of this folder holds a statement.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache
from pathlib import Path

import framework_runs
import pytest
import warm
from statements import Statement, statements
from table import _BEYOND, Outcome, row

from hpushim import matrix

ALL = list(statements())


def name(one: Statement) -> str:
    return f"{one.page}: {one.says}"


@cache
def cases(root: Path) -> list[str]:
    """The tests of this folder, as ``test_file.py::test_name[case]``, without those that no statement has to name."""
    words = ["-m", "pytest", str(Path(__file__).parent), "--collect-only", "-q", "-o", "addopts="]
    done = warm.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        timeout=300,
    )
    found = [line.partition("::") for line in done.stdout.splitlines() if "::" in line]
    known = [f"{Path(file).name}::{name}" for file, _, name in found]
    assert known, done.stdout + done.stderr
    return [one for one in known if not one.startswith(_BEYOND)]


def test_every_pattern_finds_a_test(request: pytest.FixtureRequest) -> None:
    known = cases(request.config.rootpath)
    alone = [s._replace(tests=(pattern,)) for s in ALL for pattern in s.tests]
    assert [s.tests for s in alone if not any(map(s.holds, known))] == []


def test_every_test_holds_a_statement(request: pytest.FixtureRequest) -> None:
    known = cases(request.config.rootpath)
    assert [one for one in known if not any(s.holds(one) for s in ALL)] == []


def test_each_statement_is_held() -> None:
    for one in ALL:
        assert one.tests or one.finding or one.row, one.says
        assert bool(one.code) == bool(one.finding), one.says
    assert len({s.page for s in ALL}) == 6
    assert max(Counter(map(name, ALL)).values()) == 1, "two statements of one name"


def test_the_page_has_every_statement() -> None:
    text = (Path(__file__).parent / "STATEMENTS.md").read_text(encoding="utf-8")
    lost = [name(s) for s in ALL if f"| {s.page} | {s.says}" not in text]
    assert lost == [], "STATEMENTS.md is stale: python tests/frameworks/table.py"


def test_line_of_a_statement() -> None:
    one = Statement("Page", "torch", "It trains", ("a.py::*",), "", "", "a row", "")
    runs = ((sys.executable, "cuda", "eager", 2), (sys.executable, "cpu", "", 1))
    found = {
        "a.py::test_x[1]": Outcome("passed", "", runs, 1e-7),
        "a.py::test_compiled": Outcome("failed"),
        "b.py::test_x": Outcome("failed", apart=1.0),
    }
    page, says, held, library, *rest = [cell.strip() for cell in row(one, found).split("|")[1:-1]]
    assert (page, says, held) == ("Page", "It trains", "`a.py::*`, row `a row`")
    assert library.startswith("torch ")
    assert rest == ["compile, shim", "2", "1e-07", "1 failed, 1 passed, stated"]


@pytest.mark.parametrize("one", [s for s in ALL if s.finding], ids=name)
def test_limitations_are_found(one: Statement, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(one.code)
    done = warm.run(
        [sys.executable, "-m", "hpushim", "check", "--format", "concise", str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert f": {one.finding} " in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("one", [s for s in ALL if s.row], ids=name)
def test_facts_are_rows(one: Statement) -> None:
    fact = matrix.load().row(one.row)
    assert fact is not None and fact.note and fact.source, one.row


def test_two_ranks_on_one_line() -> None:
    found = framework_runs.ranks('first RANK {"rank": 1}RANK {"rank": 0, "text": "{RANK}"}\nRANK\n')
    assert found == [{"rank": 0, "text": "{RANK}"}, {"rank": 1}]
