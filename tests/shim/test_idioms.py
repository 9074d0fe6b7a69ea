"""The CUDA idioms of training code run on the emulated HPU, or are refused with their code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import idiom_table
from idiom_files import Idiom, Reference, idioms, reference

torch = pytest.importorskip("torch", reason="the shim's idioms need torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

PROCESSES = sorted({one.process for one in idioms()})


@pytest.mark.parametrize("idiom", idioms(), ids=[one.key for one in idioms()])
def test_idiom(idiom: Idiom) -> None:
    outcome, codes = idiom_table.outcome(idiom)
    accepted = idiom.expect.split("|")
    if outcome == "ok":
        assert "ok" in accepted, f"expected {idiom.expect}"
    else:
        assert any(code in outcome for code in accepted if code != "ok"), outcome
    assert not idiom.says or idiom.says in codes, codes


def test_names_are_unique() -> None:
    keys = [one.key for one in idioms()]
    assert len(set(keys)) == len(keys)


def test_the_list_of_reference_is_whole() -> None:
    assert [row.number for row in reference()] == list(range(1, 132))
    shown = {one.key for one in idioms()}
    assert [key for row in reference() for key in row.keys if key not in shown] == []


@pytest.mark.parametrize("row", reference(), ids=[str(row.number) for row in reference()])
def test_reference(row: Reference) -> None:
    assert not idiom_table.verdict_of(row).startswith("wrong"), idiom_table.verdict_of(row)


def test_nearly_all_of_the_list_runs() -> None:
    ran = [r for r in reference() if idiom_table.verdict_of(r).startswith(("right", "warned"))]
    assert len(ran) >= 129


@pytest.mark.parametrize("process", PROCESSES)
def test_every_target_exists(process: str) -> None:
    assert idiom_table.run_process(process)["status"]["missing"] == []
