"""``accelerate launch``, as people type it: its processes are armed, and their files rewritten; the start line comes once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow

WAYS = {
    "run the module": ["{python}", "-m", "hpushim", "run", "-m", "accelerate.commands.launch"],
    "run the command": ["{python}", "-m", "hpushim", "run", "accelerate", "launch"],
    "the command, armed": ["{folder}/accelerate", "launch"],
}


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_accelerate_launch(way: str, processes: int) -> None:
    python, reason = running.python_with("torch", "accelerate")
    if reason:
        pytest.skip(reason)
    words = [word.format(python=python, folder=Path(python).parent) for word in WAYS[way]]
    options = ["--num_processes", str(processes), "--num_machines", "1", "--mixed_precision", "no"]
    options += ["--dynamo_backend", "no", "--main_process_port", str(running.free_port())]
    environment = running.environment("cuda", "eager", processes)
    if "armed" in way:
        environment["HPUSHIM"] = "emulate"
    done = subprocess.run(
        [*words, *options, str(running.PROGRAMS / "probe.py")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = (one for one in done.stdout.splitlines() if one.startswith("RESULT "))
    kind = "DistributedType.NO" if processes == 1 else "DistributedType.MULTI_HPU"
    expected = {"armed": True, "rewritten": True, "kind": kind, "sum": float(processes)}
    assert json.loads(line.removeprefix("RESULT ")) == expected
    assert done.stderr.count("CUDA calls run on an emulated HPU") == 1, done.stderr
    assert "HPU107" not in done.stderr
