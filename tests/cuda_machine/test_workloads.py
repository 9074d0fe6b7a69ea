"""A packed workload is migrated and compared step by step; a stand-in takes the CUDA device's place."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import warm

pytest.importorskip("torch", reason="it runs a training script")
sys.path.insert(0, str(Path(__file__).parent))
import workloads

from hpushim.prove import cuda

SCRIPT = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
net = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
for step in range(3):
    loss = net(torch.randn(8, 4).to(device)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
"""


def _packed(folder: Path, rate: str) -> Path:
    (folder / "original").mkdir(parents=True)
    (folder / "original" / "train.py").write_text(SCRIPT.replace("RATE", rate))
    job = {"cwd": ".", "words": ["train.py"], "env": {"PYTHONPATH": "."}, "loss": "loss <n>"}
    (folder / "job.json").write_text(json.dumps(job))
    return folder


@pytest.mark.parametrize(
    ("rate", "verdict", "what"),
    [
        ("0.1", "equal", "3 steps, "),
        ("__import__('os').getpid() / 1e7", "not compared", "not compared on a stand-in: there, two runs of the original differ beyond rounding"),
        ("0.1 / 0", "not compared", "not compared on a stand-in: the original makes no step there: ZeroDivisionError: float division by zero"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("style", workloads.STYLES)
def test_a_copy_is_compared_with_its_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: workloads.Style, rate: str, verdict: str, what: str) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with warm.serving():
        row = workloads.compared(_packed(tmp_path / "made", rate), style, lambda: cuda.Found(sys.executable, "a stand-in"))  # fmt: skip
    assert (row.name, row.way, row.verdict) == ("made", style, verdict), row.what
    assert row.what.startswith(what)
