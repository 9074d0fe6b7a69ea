"""torchrun on two hosts, which are two agents on this machine: every rank is armed, and a killed one comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow


def test_two_agents_and_a_killed_rank(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the job is torch's")
    words = [sys.executable, "-m", "hpushim", "run", "-m", "torch.distributed.run", "--nnodes=2"]
    words += ["--nproc-per-node=1", "--max-restarts=2", "--rdzv-backend=c10d", "--rdzv-id=job"]
    words += [
        f"--rdzv-endpoint=127.0.0.1:{running.free_port()}",
        str(running.PROGRAMS / "agents.py"),
    ]
    agents = [
        subprocess.Popen(
            [*words, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=running.environment("cuda", "eager", 1),
        )
        for _ in range(2)
    ]
    outputs = [agent.communicate(timeout=600) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], [err[-2000:] for _, err in outputs]
    text = "".join(out for out, _ in outputs)
    (line,) = (one for one in text.splitlines() if one.startswith("RESULT "))
    found = json.loads(line.removeprefix("RESULT "))
    assert found.pop("last") < 10
    # Of the steps, three were made before the kill, and the file was read again.
    assert found == {"first": 3, "device": True, "hosts": "2"}
