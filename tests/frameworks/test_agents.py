"""torchrun on one and two hosts, which are agents on this machine: every rank is armed, and a killed one comes back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("killed", [False, True])
def test_agents_and_a_killed_rank(tmp_path: Path, hosts: int, killed: bool) -> None:
    pytest.importorskip("torch", reason="the job is torch's")
    words = [sys.executable, "-m", "hpushim", "run", "-m", "torch.distributed.run"]
    words += [f"--nnodes={hosts}", f"--nproc-per-node={2 // hosts}", "--max-restarts=2"]
    words += ["--rdzv-backend=c10d", "--rdzv-id=job"]
    words += [
        f"--rdzv-endpoint=127.0.0.1:{running.free_port()}",
        str(running.PROGRAMS / "agents.py"),
    ]
    # Without it an agent of torch 2.13 keeps one store for all attempts: ranks that come back read addresses of dead ones,
    # and plain gloo on the CPU fails or waits for ever in every other run.
    environment = running.environment("cuda", "eager", 1) | {
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"
    }
    agents = [
        subprocess.Popen(
            [*words, str(tmp_path), *["kill"] * killed],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(hosts)
    ]
    try:
        outputs = [agent.communicate(timeout=300) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert not any(agent.returncode for agent in agents), [err[-2000:] for _, err in outputs]
    found = running.result("".join(out for out, _ in outputs))
    assert found.pop("last") < 10
    # Of the steps, three were made before the kill, and the file was read again.
    assert found == {"first": 3 * killed, "device": True, "hosts": str(hosts)}
