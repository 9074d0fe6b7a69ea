"""A run that trains and never touches its card says so, loudly, at its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """\
import sys, torch
w = torch.ones(3, device="cuda" if "--cuda" in sys.argv else "cpu", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    (w * w).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("options", [(), ("--cuda",)])
def test_training_on_the_cpu_alone_is_said(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    done = subprocess.run(
        [sys.executable, "-m", "hpushim", "run", "train.py", *options],
        cwd=tmp_path,
        env={**clean, "HPUSHIM": "emulate", "HPUSHIM_LOG": "quiet"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = "NOTHING RAN ON HPU: all 2 optimizer steps were made on cpu" in done.stderr
    assert told == (not options)
