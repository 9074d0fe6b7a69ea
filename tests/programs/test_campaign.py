"""A small, fixed part of the campaign on generated programs; the whole is a command (``campaign.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import campaign
import grammar
import pytest
import ways

torch = pytest.importorskip("torch", reason="the programs train with torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

COUNT = 48
PARTS = 6


@pytest.fixture(scope="module")
def servers() -> Iterator[ways.Servers]:
    with ways.Servers() as started:
        yield started


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_do_the_same_three_ways(part: int, servers: ways.Servers, tmp_path: Path) -> None:
    wrong = {}
    for seed in range(part, COUNT, PARTS):
        found = campaign.outcome(grammar.drawn(seed), servers, tmp_path)
        if found.open:
            wrong[seed] = found.wrong
    assert not wrong


def simple(**chosen: str) -> grammar.Program:
    first = {slot: next(iter(grammar.pieces()[slot])) for slot in grammar.SLOTS}
    return grammar.Program({**first, **chosen})


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("optimizer.step()", "pass", "native: loss differs"),
        ("lr=0.1", "lr=0.1001", "native: loss differs"),
        ('torch.device("hpu" if', 'torch.device("cpu" if', "native: parameters on {'cpu'}"),
        ("torch.hpu.is_available()", "torch.cuda.is_available()", "native: parameters on {'cpu'}"),
        ("model(x)", "model(x.cuda())", "native: exit 1"),
        ('print("loss"', 'print("note"', "native: loss differs"),
    ],
)
def test_a_fault_in_the_migrated_copy_is_found(
    before: str,
    after: str,
    told: str,
    servers: ways.Servers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = ways.migrated

    def faulty(files: dict[str, str]) -> ways.Migrated:
        done = real(files)
        text = done.files["train.py"]
        assert before in text
        return replace(done, files={**done.files, "train.py": text.replace(before, after)})

    assert not campaign.outcome(simple(), servers, tmp_path).wrong
    monkeypatch.setattr(ways, "migrated", faulty)
    found = campaign.outcome(simple(), servers, tmp_path)
    assert found.open and found.wrong[0].startswith(told)


def test_the_smallest_program_that_is_wrong_in_the_same_way(
    servers: ways.Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of one idiom is shown by that idiom alone."""
    real = ways.migrated

    def faulty(files: dict[str, str]) -> ways.Migrated:
        done = real(files)
        texts = {
            name: text.replace("clip_grad_norm_(", "bad(") for name, text in done.files.items()
        }
        return replace(done, files=texts)

    monkeypatch.setattr(ways, "migrated", faulty)
    program = replace(
        simple(step="clipped", batch="map_cuda"), structure="two_files", extras=("ema",)
    )
    kind = campaign.outcome(program, servers, tmp_path).kind
    assert campaign.smallest(program, kind, servers, tmp_path) == simple(step="clipped")


def test_a_seed_gives_its_program_again() -> None:
    for seed in range(200):
        program = grammar.drawn(seed)
        assert grammar.rendered(program) == grammar.rendered(grammar.drawn(seed))
        for text in grammar.rendered(program)[0].values():
            assert "$" not in text and "<<" not in text
