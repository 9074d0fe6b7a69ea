"""The ledger of a run of many ranks: one file read at a time, and what is told is that of all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from hpushim.errors import HpushimError
from hpushim.ledgers import reading
from hpushim.ledgers.reading import read
from hpushim.ledgers.rendering import FORMATS, render
from hpushim.ledgers.summary import summarize
from hpushim.matrix import load

PARALLEL = Path(__file__).parents[1] / "plan" / "parallel.py"


def books(rank: int, lines: int) -> dict[str, Any]:
    """Of a rank: the same program, with a line of its own and a figure that differs."""
    sites = [
        {"file": "/a/train.py", "line": n, "kind": "host_sync", "what": "item", "count": 2, "bytes": 4}
        for n in range(1, lines)
    ]  # fmt: skip
    own = {
        "file": "/a/train.py",
        "line": 10_000 + rank,
        "kind": "host_sync",
        "what": "item",
        "count": 1,
    }
    change = {"argument": "self", "before": "2", "after": "3", "kind": "dimension", "dimension": 0}
    return {
        "schema_version": 1,
        "emulated": True,
        "complete": True,
        "gaudi": "gaudi2",
        "mode": "eager",
        "operators": 100,
        "host_syncs": 2 * lines,
        "recompilations": 1,
        "peak_bytes": 1000 + rank,
        "collectives": 3,
        "process_groups": [{"backend": "hccl", "device": "hpu", "size": 64}],
        "parameters": {"hpu:0": 7},
        "compute_operators": {"hpu": 5, "cpu": 0},
        "recompilation_causes": [
            {"operator": "aten::add", "count": 1, "differences": [change], "file": "/a/train.py", "line": 3}
        ],
        "steps": {"count": 2 + (rank == 5), "optimizers": 1, "entries": [{"steps": 1}, {"steps": 1, "host_syncs": 4}]},
        "sites": [*sites, own],
        "left_out": {"sites": int(rank == 9)},
    }  # fmt: skip


def run_of(folder: Path, ranks: int, lines: int = 20) -> Path:
    path = folder / "ledger.json"
    for rank in range(ranks):
        name = path if not rank else folder / f"ledger.json.rank{rank}"
        name.write_text(json.dumps(books(rank, lines)))
    return path


@pytest.mark.parametrize("ranks", [2, 64, 1500])
def test_the_ranks_of_a_run_are_one(tmp_path: Path, ranks: int) -> None:
    found = read(run_of(tmp_path, ranks))
    joined = found.joined
    assert found.processes == ranks
    assert (joined.operators, joined.collectives) == (100 * ranks, 3 * ranks)
    assert (joined.peak_bytes, joined.parameters) == (999 + ranks, {"hpu:0": 7 * ranks})
    assert [(one.line, one.count) for one in joined.sites[:2]] == [(1, 2 * ranks), (2, 2 * ranks)]
    assert len(joined.sites) == 19 + ranks
    assert [(one.count, one.line) for one in joined.recompilation_causes] == [(ranks, 3)]
    assert found.main.steps.count == 2 + (ranks > 5)
    assert found.later == (ranks, 4 * ranks)
    assert [name for name, _ in found.left_out] == ["rank9"] * (ranks > 9)


def test_what_is_told_of_many_ranks(tmp_path: Path) -> None:
    told = summarize(read(run_of(tmp_path, 64)), load())
    text = render(told, "text", everything=True)
    assert "6,400 in 64 processes" in text and "192 over hccl of 64" in text
    assert "rank9: 1 events at further lines" in text
    for format_ in FORMATS:
        assert render(told, format_)


def test_memory_does_not_grow_with_the_ranks(tmp_path: Path) -> None:
    """64 ranks take what 4 take, give or take the lines that are theirs alone."""
    peaks = []
    for ranks in (4, 64):
        (folder := tmp_path / str(ranks)).mkdir()
        path = run_of(folder, ranks, 3000)
        read(path)
        tracemalloc.start()
        read(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_more_processes_than_a_run_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Not: the first thousand, without a word."""
    monkeypatch.setattr(reading, "_MOST_PROCESSES", 3)
    with pytest.raises(HpushimError, match="files of 4 processes"):
        read(run_of(tmp_path, 4))


@pytest.mark.slow
@pytest.mark.usefixtures("served")
def test_a_real_run_of_64_ranks(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the emulated device needs torch")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    command = [sys.executable, "-m", "hpushim", "run", "--native", "--ledger", "ledger.json"]
    launcher = ["torchrun", "--standalone", "--nproc-per-node=64"]
    done = subprocess.run(
        [*command, *launcher, str(PARALLEL), "ddp", "64", "hccl", "hpu"],
        cwd=tmp_path,
        env={**clean, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = read(tmp_path / "ledger.json")
    assert (found.processes, found.unfinished) == (64, ())
    # One check of the shapes, two of parameters and buffers, two of the buckets, three steps: of each rank.
    assert found.joined.collectives == 64 * 8
