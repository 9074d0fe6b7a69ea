"""Small scripts, and the command run on them in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import warm

TRAIN = """\
import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
parser.add_argument("--amp", action="store_true")
parser.add_argument("--trace", action="store_true")
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() and not args.no_cuda else "cpu")
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
for step in range(6):
    x = torch.randn(8, 8).to(device, non_blocking=True)
    y = torch.randint(0, 4, (8,)).to(device)
    with torch.cuda.amp.autocast(enabled=args.amp):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(step, loss.item())
if args.trace:
    torch.cuda.synchronize()
torch.save(model.state_dict(), "model.pt")
"""


def prove(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """``hpushim prove`` in a process of its own."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    return warm.run(
        [sys.executable, "-m", "hpushim", "prove", *map(str, words)],
        cwd=cwd,
        env={**clean, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
