"""What the shim costs: ratios of CPU time in one process, patched and native in turn, on the emulated HPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.bench
torch = pytest.importorskip("torch", reason="the shim's cost is measured on torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

HERE = Path(__file__).parent
NOISE = 0.05


def measured(folder: Path, *arguments: str) -> dict[str, Any]:
    """What the script printed; byte code is kept in the folder, as an installation has it."""
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, str(HERE / "shim_cost.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={
            **inherited,
            "OMP_NUM_THREADS": "1",
            "HPUSHIM_LOG": "quiet",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "PYTHONPYCACHEPREFIX": str(folder),
            "PYTHONPATH": path,
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def cost(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bytecode")
    measured(folder, "--start")
    found = measured(folder)
    for again in [measured(folder, "--start") for _ in range(2)]:
        for name in ("import_ms", "activate_ms"):
            found[name] = min(found[name], again[name])
    print(json.dumps(found, indent=1))
    return found


@pytest.mark.parametrize(
    ("call", "limit"),
    [
        ("add", 1.0 + NOISE),
        ("zeros(device=)", 2.0),
        ("tensor(device=)", 2.0),
        ("host.to()", 1.5),
        ("GPT step", 1.01 + NOISE),
    ],
)
def test_ratio(cost: dict[str, Any], call: str, limit: float) -> None:
    assert cost["ratios"][call] <= limit, cost["microseconds"][call]


def test_start_up(cost: dict[str, Any]) -> None:
    assert cost["import_ms"] < 20
    assert cost["activate_ms"] < 20
