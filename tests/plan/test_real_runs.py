"""What a plan says of a world that is there: real runs of as many processes, each collective counted where it is carried out.

On the emulated hccl the device's ledger counts, on gloo what torch dispatches in a rank; neither knows the recorder of a plan.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.usefixtures("served"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the ranks are forked"),
]
PROGRAM = Path(__file__).with_name("parallel.py")
HOW = ("ddp", "fsdp", "tensor", "calls")
#: By the operator: the collective, and whether a rank hands over its part of the whole, or all of it.
CARRIED = {
    "allreduce_": ("all_reduce", False),
    "broadcast_": ("broadcast", False),
    "allgather_": ("all_gather", True),
    "_allgather_base_": ("all_gather_into_tensor", True),
    "_reduce_scatter_base_": ("reduce_scatter_tensor", False),
    "alltoall_base_": ("all_to_all_single", False),
    "scatter_": ("scatter", False),
    # As the compiler's collectives are dispatched, of which tensor parallelism makes use.
    "all_reduce": ("all_reduce", False),
    "all_gather_into_tensor": ("all_gather_into_tensor", True),
    "reduce_scatter_tensor": ("reduce_scatter_tensor", False),
}
Sent = Counter[tuple[str, int]]


def _run(*words: str | Path, folder: Path) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        env={**clean, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def planned(folder: Path, world: int) -> tuple[Sent, Sent]:
    """Calls and bytes, by collective and ranks of the group: what comes once, and three steps, of all the ways."""
    calls: Sent = Counter()
    sizes: Sent = Counter()
    for how in HOW:
        command = ("-m", "hpushim", "plan", "--world", str(world), "--native", "--json")
        found = json.loads(_run(*command, PROGRAM, how, str(world), "hccl", "hpu", folder=folder))
        for part, times in (("first", 1), ("step", found["steps"])):
            for one in found[part]:
                calls[one["name"], one["ranks"]] += one["calls"] * times
                sizes[one["name"], one["ranks"]] += one["bytes"] * times
    return calls, sizes


def on_hccl(folder: Path, world: int) -> tuple[Sent, Sent]:
    ledger = folder / "ledger.json"
    command = ("-m", "hpushim", "run", "--native", "--ledger", ledger)
    _run(*command, PROGRAM, ",".join(HOW), str(world), "hccl", "hpu", folder=folder)
    calls: Sent = Counter()
    sizes: Sent = Counter()
    for one in json.loads(ledger.read_text())["sites"]:
        if one["kind"] == "collective":
            operator, _, group = one["what"].partition(" in ")
            ranks = int(group.split(" of ")[1].split()[0])
            name, part = CARRIED[operator]
            calls[name, ranks] += one["count"]
            sizes[name, ranks] += one["bytes"] * (ranks if part else 1)
    return calls, sizes


def on_gloo(folder: Path, world: int) -> tuple[Sent, Sent]:
    output = _run(PROGRAM, ",".join(HOW), str(world), "gloo", "cpu", folder=folder)
    calls: Sent = Counter()
    sizes: Sent = Counter()
    for operator, size, ranks in json.loads(output.strip().splitlines()[-1]):
        name, part = CARRIED[operator]
        calls[name, ranks] += 1
        sizes[name, ranks] += size * (ranks if part else 1)
    return calls, sizes


@pytest.mark.parametrize("world", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 8, 16))])  # fmt: skip
def test_a_plan_is_what_the_ranks_send(tmp_path: Path, world: int) -> None:
    pytest.importorskip("torch", reason="the emulated device needs torch")
    found = planned(tmp_path, world)
    assert found == on_hccl(tmp_path, world)
    assert found == on_gloo(tmp_path, world)
