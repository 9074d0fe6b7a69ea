"""Small programs print under the shim and migrated what they print with CUDA; what ``migrate`` leaves, it reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import ways
from device_programs import MAIN, PROGRAMS, Program

from hpushim.engine.base.text import ALONE
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Target


def settled(program: Program) -> Settled:
    return settle(program.code, "python", f"{program.module}.py", Context(Target(), load(), ALONE))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, list[str]]]]:
    """What each program prints, by the way that it is run: all in one process, each a module of its own."""
    found = {}
    with ways.Servers() as servers:
        for way in ("shim", "native"):
            folder: Path = tmp_path_factory.mktemp(way)
            files = {
                f"{p.module}.py": p.code if way == "shim" else settled(p).text for p in PROGRAMS
            }
            ways.lay_out(
                folder, {**files, "main.py": MAIN % [program.module for program in PROGRAMS]}
            )
            ran = servers.run(way, folder, ["main.py"], {}, seconds=300)
            assert ran.lines("printed"), ran.output
            found[way] = json.loads(ran.lines("printed")[0])
    yield found


def test_there_are_enough() -> None:
    assert len({program.module for program in PROGRAMS}) == len(PROGRAMS) >= 250
    assert sum(bool(program.reported) for program in PROGRAMS) <= 25


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_shim_answers_as_cuda_does(
    program: Program, printed: dict[str, dict[str, list[str]]]
) -> None:
    assert tuple(printed["shim"][program.module]) == program.prints


@pytest.mark.parametrize(
    "program", [p for p in PROGRAMS if not p.reported], ids=lambda program: program.name
)
def test_the_migrated_program_answers_as_cuda_does(
    program: Program, printed: dict[str, dict[str, list[str]]]
) -> None:
    assert tuple(printed["native"][program.module]) == program.prints


@pytest.mark.parametrize(
    "program", [p for p in PROGRAMS if p.reported], ids=lambda program: program.name
)
def test_what_is_left_is_reported(program: Program) -> None:
    left = [found for found in settled(program).findings if found.line > 2 and not found.applied]
    assert left
