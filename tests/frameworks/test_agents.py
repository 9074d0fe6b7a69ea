"""torchrun on two hosts, which are two agents on this machine: every rank is armed; on one, a killed rank comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow


# Two agents that restart may count their restarts apart, as torch does, and their ranks then wait for each other without end.
@pytest.mark.parametrize(("hosts", "killed"), [(2, False), (1, True)])
def test_agents_and_a_killed_rank(tmp_path: Path, hosts: int, killed: bool) -> None:
    pytest.importorskip("torch", reason="the job is torch's")
    words = [sys.executable, "-m", "hpushim", "run", "-m", "torch.distributed.run"]
    words += [f"--nnodes={hosts}", f"--nproc-per-node={2 // hosts}", "--max-restarts=2"]
    words += ["--rdzv-backend=c10d", "--rdzv-id=job"]
    words += [
        f"--rdzv-endpoint=127.0.0.1:{running.free_port()}",
        str(running.PROGRAMS / "agents.py"),
    ]
    agents = [
        subprocess.Popen(
            [*words, str(tmp_path), *["kill"] * killed],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=running.environment("cuda", "eager", 1),
        )
        for _ in range(hosts)
    ]
    try:
        outputs = [agent.communicate(timeout=300) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert not any(agent.returncode for agent in agents), [err[-2000:] for _, err in outputs]
    text = "".join(out for out, _ in outputs)
    (line,) = (one for one in text.splitlines() if one.startswith("RESULT "))
    found = json.loads(line.removeprefix("RESULT "))
    assert found.pop("last") < 10
    # Of the steps, three were made before the kill, and the file was read again.
    assert found == {"first": 3 * killed, "device": True, "hosts": str(hosts)}
