"""The rarer CUDA idioms run on the emulated HPU, or are refused with their code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from corners import CORNERS
from idioms import Idiom

torch = pytest.importorskip("torch", reason="the shim's idioms need torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

HERE = Path(__file__).parent


@cache
def run_group(group: str) -> dict[str, Any]:
    """What the runner printed for one group; each group is one process, run once."""
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / "idiom_runner.py"), group, "corners"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HPUSHIM_LOG": "quiet", "PYTHONPATH": path},
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("corner", CORNERS, ids=[f"{c.group}-{c.name}" for c in CORNERS])
def test_corner(corner: Idiom) -> None:
    outcome = run_group(corner.group)["results"][corner.name]
    accepted = corner.expect.split("|")
    if outcome == "ok":
        assert "ok" in accepted, f"expected {corner.expect}"
    else:
        assert any(code in outcome for code in accepted if code != "ok"), outcome


@pytest.mark.parametrize("group", sorted({corner.group for corner in CORNERS}))
def test_every_target_exists(group: str) -> None:
    assert run_group(group)["status"]["missing"] == []
