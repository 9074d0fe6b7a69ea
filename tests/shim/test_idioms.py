"""The CUDA idioms of training code run on the emulated HPU, or are refused with their code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from idioms import IDIOMS, Idiom

torch = pytest.importorskip("torch", reason="the shim's idioms need torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

HERE = Path(__file__).parent
_outcomes: dict[str, dict[str, Any]] = {}


def run_group(group: str) -> dict[str, Any]:
    """What the runner printed for one group; each group is one process, run once."""
    if group not in _outcomes:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HPUSHIM_LOG": "quiet",
            "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
        }
        done = subprocess.run(
            [sys.executable, str(HERE / "idiom_runner.py"), group],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        _outcomes[group] = json.loads(done.stdout.splitlines()[-1])
    return _outcomes[group]


@pytest.mark.parametrize("idiom", IDIOMS, ids=[f"{i.group}-{i.name}" for i in IDIOMS])
def test_idiom(idiom: Idiom) -> None:
    outcome = run_group(idiom.group)["results"][idiom.name]
    accepted = idiom.expect.split("|")
    if outcome == "ok":
        assert "ok" in accepted, f"expected {idiom.expect}"
    else:
        assert any(code in outcome for code in accepted if code != "ok"), outcome


def test_names_are_unique() -> None:
    names = [idiom.name for idiom in IDIOMS]
    assert len(set(names)) == len(names) >= 131


@pytest.mark.parametrize("group", ["plain", "distributed", "compile", "early"])
def test_every_target_exists(group: str) -> None:
    assert run_group(group)["status"]["missing"] == []
