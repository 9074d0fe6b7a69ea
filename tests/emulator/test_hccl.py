"""hccl under torchrun: every collective, and training equal to gloo on the CPU, element by element."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import plain_environment

PROGRAM = Path(__file__).with_name("hccl_program.py")


def launch(ranks: int, where: str, target: Path, **env: str) -> dict[str, list[torch.Tensor]]:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
    ]
    result = subprocess.run(
        [*command, str(PROGRAM), where, str(target)],
        env=plain_environment(**env),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return torch.load(target)


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_training_equals_gloo_on_the_cpu(tmp_path, ranks):
    ledger = tmp_path / "ledger.json"
    expected = launch(ranks, "cpu", tmp_path / "cpu.pt")
    got = launch(ranks, "hpu", tmp_path / "hpu.pt", HPUSHIM_LEDGER=str(ledger))
    expected["fsdp1"] = expected["ddp"]
    assert set(got) == set(expected)
    for kind, weights in got.items():
        for a, b in zip(weights, expected[kind], strict=True):
            if kind == "fsdp1":  # another order of summation than DDP's
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
            else:
                assert torch.equal(a, b), kind
    books = json.loads(ledger.read_text())
    assert books["collectives"] > 20
    assert {"backend": "hccl", "device": "hpu", "size": ranks} in books["process_groups"]
    assert sorted(p.name for p in tmp_path.glob("ledger.json.*")) == [
        f"ledger.json.rank{i}" for i in range(1, ranks)
    ]
