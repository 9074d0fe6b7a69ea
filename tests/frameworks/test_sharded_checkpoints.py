"""torch.distributed.checkpoint with FSDP1 and FSDP2: what two processes write, one and four read and go on from, with the losses of
the CPU; under the shim, and migrated.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow
JOB = running.PROGRAMS / "sharded_checkpoint.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="the job is torch's")
    return tmp_path_factory.mktemp("checkpoints")


@cache
def job(where: str, place: Path) -> Path:
    """The file that runs there: as it is, or migrated."""
    return running.migrated(place, JOB) if where == "hpu" else JOB


@cache
def told(where: str, place: Path, processes: int, action: str, kept: str) -> list[dict[str, Any]]:
    """What each rank says of writing or reading the checkpoint of that name."""
    shim = ["-m", "hpushim", "run"] if where == "cuda" else []
    words = [sys.executable, *shim, "-m", "torch.distributed.run", "--nproc_per_node", str(processes)]  # fmt: skip
    words += ["--master_port", str(running.free_port()), str(job(where, place)), action]
    found = running.ranks(running.output([*words, str(place / kept)], where, processes))
    assert [one["rank"] for one in found] == list(range(processes))
    assert {one["world"] for one in found} == {processes}
    return found


@pytest.mark.parametrize(
    ("where", "processes", "writer"),
    [("cuda", 1, "cuda"), ("cuda", 4, "cuda"), ("hpu", 1, "cuda"), ("hpu", 4, "hpu")],
)
def test_read_by_another_number_of_processes(
    where: str, processes: int, writer: str, place: Path
) -> None:
    expected = told("cpu", place, 2, "write", "cpu")[0]
    written = told(writer, place, 2, "write", writer)[0]
    read = told(where, place, processes, "read", writer)
    running.RUNS.update(running.Run(sys.executable, where, "eager", n) for n in (2, processes))
    for one in (written, *read):
        assert one["weights"] == ["hpu"], one
        for kind in ("fsdp1", "fsdp2"):
            running.numbers_agree(one[kind], expected[kind], 1e-5)
