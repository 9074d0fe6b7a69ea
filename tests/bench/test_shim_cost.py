"""What the shim costs: ratios of CPU time in one process, patched and native in turn, on the emulated HPU.

``pytest tests/bench/test_shim_cost.py -m bench -s`` prints every figure with its spread.
"""

from __future__ import annotations

import json
import os
import statistics
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
STARTS = 11
# Of a median of 200 pairs.
NOISE = 0.02


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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where byte code is kept, written by a first run."""
    found = tmp_path_factory.mktemp("bytecode")
    measured(found, "--start")
    return found


@pytest.fixture(scope="module")
def cost(folder: Path) -> dict[str, Any]:
    found = measured(folder)
    pairs = found["GPT step"]["pairs"]
    lines = [
        "",
        f"emulated HPU, CPU time in microseconds, medians of {pairs} pairs; the ratio's middle four fifths",
    ]
    for name, case in found.items():
        low, high = case["spread"]
        lines.append(
            f"{name:32} native {case['native']:8.2f}  shimmed {case['shimmed']:8.2f}  "
            f"ratio {case['ratio']:.3f}  ({low:.3f} to {high:.3f})"
        )
    print("\n".join(lines))
    return found


@pytest.fixture(scope="module")
def starts(folder: Path) -> dict[str, list[float]]:
    found = [measured(folder, "--start") for _ in range(STARTS)]
    every = {name: sorted(one[name] for one in found) for name in found[0]}
    for name, values in every.items():
        middle = statistics.median(values)
        print(
            f"\n{name}: median {middle:.1f} of {STARTS} processes ({values[0]:.1f} to {values[-1]:.1f})"
        )
    return every


@pytest.mark.parametrize(
    ("call", "limit"),
    [
        ("a + a", 1.0),
        ("torch.relu(a)", 1.0),
        ("a.view(1)", 1.0),
        ("torch.zeros(1, device=)", 2.0),
        ("torch.tensor([1.0], device=)", 2.0),
        ("host.to(text)", 1.5),
        ("hpu.to(text), no move", 1.5),
        ("hpu.to(device object), no move", 1.05),
        ("torch.empty(1)", 1.25),
        ("torch.device(text)", 1.5),
        ("GPT step", 1.01),
    ],
)
def test_ratio(cost: dict[str, Any], call: str, limit: float) -> None:
    assert cost[call]["ratio"] <= limit + NOISE, cost[call]


def test_start_up(starts: dict[str, list[float]]) -> None:
    assert statistics.median(starts["import_ms"]) < 20
    assert statistics.median(starts["activate_ms"]) < 20
