"""Every statement of the libraries' pages has what holds it: a test that exists, a finding that is given, a row that is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from statements import Statement, statements

from hpushim import matrix

ALL = list(statements())


def cases(root: Path) -> list[str]:
    """The tests of this folder, as ``test_file.py::test_name[case]``."""
    words = ["-m", "pytest", str(Path(__file__).parent), "--collect-only", "-q", "-o", "addopts="]
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        timeout=300,
    )
    found = [line.partition("::") for line in done.stdout.splitlines() if "::" in line]
    return [f"{Path(file).name}::{name}" for file, _, name in found]


def test_every_pattern_finds_a_test(request: pytest.FixtureRequest) -> None:
    known = cases(request.config.rootpath)
    assert known
    lost = [s.says for s in ALL if s.tests and not any(s.holds(name) for name in known)]
    assert lost == []


def test_each_statement_is_held_in_one_way() -> None:
    for one in ALL:
        assert sum(map(bool, (one.tests, one.finding, one.row))) == 1, one.says
        assert bool(one.code) == bool(one.finding), one.says
    assert len({s.page for s in ALL}) == 5 and len(ALL) >= 35


@pytest.mark.parametrize("one", [s for s in ALL if s.finding], ids=lambda s: s.says)
def test_limitations_are_found(one: Statement, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(one.code)
    done = subprocess.run(
        [sys.executable, "-m", "hpushim", "check", "--format", "concise", str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert f": {one.finding} " in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("one", [s for s in ALL if s.row], ids=lambda s: s.says)
def test_facts_are_rows(one: Statement) -> None:
    row = matrix.load().row(one.row)
    assert row is not None and row.note and row.source, one.row
