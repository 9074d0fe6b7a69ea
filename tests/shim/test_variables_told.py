"""Variables that do nothing on a Gaudi are told once; names that the software here lacks, in one line."""

from __future__ import annotations

import os

import pytest

from hpushim import matrix
from hpushim.errors import HpushimError
from hpushim.shim import vendor
from hpushim.shim.patches import environment

ROWS = [row for row in matrix.load().rows if row.kind == "env" and row.rule and "*" not in row.name]
DEAD = [row.name for row in ROWS if row.status != "native" and row.name not in environment._HANDLED]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.delenv(environment._REPORTED, raising=False)
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(environment.log, "warn", lambda code, text: found.append((code, text)))
    return found


def test_each_variable_is_told_once_with_its_code(said: list[tuple[str, str]]) -> None:
    environment._report([*DEAD, "HOME"])
    told = "; ".join(text for _, text in said)
    assert len(DEAD) > 5 and [name for name in DEAD if name not in told] == []
    assert "HOME" not in told.replace("CUDA_HOME", "")
    assert {code for code, _ in said} == {row.rule for row in ROWS if row.name in DEAD}
    count = len(said)
    environment._report([*DEAD, "HOME"])
    assert len(said) == count, "and its children say nothing"
    assert os.environ.pop(environment._REPORTED)


def test_where_all_is_well_nothing_is_told(said: list[tuple[str, str]]) -> None:
    environment._report(["HOME", *environment._HANDLED])
    os.environ.pop(environment._REPORTED, None)
    assert said == []


def test_what_the_software_lacks_is_one_line() -> None:
    gone = vendor.READS[:2]
    text = vendor.explained(gone)
    assert "\n" not in text
    assert all(f"{one.name} (for {one.needed_by})" in text for one in gone)


@pytest.mark.parametrize("sources", [["a.cpp", "b.cu"], "k.cuh", ["a.cpp"], "a.cpp", None])
@pytest.mark.parametrize("named", [False, True])
def test_cuda_sources_are_refused_and_others_built(sources: object, named: bool) -> None:
    given = ((), {"name": "x", "sources": sources}) if named else (("x", sources), {})
    build = lambda *args, **kwargs: "built"  # noqa: E731
    if ".cu" in str(sources):
        with pytest.raises(HpushimError, match="HPU711"):
            environment.cuda_sources(build, *given[0], **given[1])
    else:
        assert environment.cuda_sources(build, *given[0], **given[1]) == "built"
