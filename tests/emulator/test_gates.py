"""What kernels take, by generation and mode: no objection to ordinary training, and each one where a list says so."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm
from environments import plain_environment

TRAINING = Path(__file__).with_name("ordinary_training.py")
NARROWED = "demotion int64 is kept as int32"


def objections(*words: str, lazy: str) -> dict[str, list[str]]:
    """By generation, mode and part of the training: what the device objected to besides narrowed int64."""
    done = warm.run(
        [sys.executable, "-W", "ignore", str(TRAINING), *words],
        env=plain_environment(HPUSHIM_POLICY="strict", PT_HPU_LAZY_MODE=lazy),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def others(found: list[str]) -> list[str]:
    return [one for one in found if not one.startswith(NARROWED)]


def test_ordinary_training_meets_no_objection() -> None:
    """A small GPT (plain, masked, bf16), a ResNet, an LSTM, eleven optimizers: each generation, lazy and eager, strict."""
    found = objections(lazy="1")
    assert len(found) == 3 * 2 * 6
    for name, one in found.items():
        narrow = name.startswith("gaudi1") or " lazy " in name
        assert others(one) == [], name
        assert bool(one) == (narrow and "optimizers" not in name), name


@pytest.mark.slow
def test_compiled_training_meets_no_objection() -> None:
    found = objections("compiled", lazy="0")
    assert len(found) == 6 and not any(others(one) for one in found.values()), found


PROGRAM = """
    import json, os
    os.environ["HPUSHIM_LOG"] = "quiet"
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch
    import torch.nn.functional as F
    from hpushim.emulator import ledger, objections

    def put(*values, dtype):
        return torch.tensor(values, dtype=dtype).to("hpu")

    def norm(dtype):
        x = torch.ones(2, 3, dtype=torch.bfloat16, device="hpu")
        F.batch_norm(x, *(torch.ones(3, dtype=dtype, device="hpu") for _ in range(4)), True)

    CASES = {
        "sum of bool": lambda: put(True, False, dtype=torch.bool).sum(),
        "sum of double": lambda: put(1.0, dtype=torch.float64).sum(),
        "sum of int16": lambda: torch.sum(put(1, dtype=torch.int16), dim=0, dtype=torch.int16),
        "sum of int16 as float": lambda: torch.sum(put(1, dtype=torch.int16), dim=0, dtype=torch.float32),
        "bool times float": lambda: put(True, dtype=torch.bool) * put(1.5, dtype=torch.float32),
        "half": lambda: torch.nan_to_num(put(1.0, dtype=torch.float16)),
        "roll of int64": lambda: torch.roll(put(1, 2, dtype=torch.int64), 1),
        "product of matrices of int32": lambda: put([1], dtype=torch.int32) @ put([1], dtype=torch.int32),
        "norm with bf16 weights": lambda: norm(torch.bfloat16),
        "norm with float weights": lambda: norm(torch.float32),
        "index_add_": lambda: torch.zeros(3, device="hpu").index_add_(0, put(1, dtype=torch.int64), put(1.0, dtype=torch.float32)),
        "index_add_ of int32": lambda: torch.zeros(3, device="hpu").index_add_(0, put(1, dtype=torch.int32), put(1.0, dtype=torch.float32)),
        "embedding of bf16": lambda: F.embedding(put(1, dtype=torch.int64), torch.ones(3, 2, dtype=torch.bfloat16, device="hpu")),
        "fp8": lambda: put(1.0, dtype=torch.float32).to(torch.float8_e4m3fn),
        "complex": lambda: torch.ones(1, dtype=torch.complex64, device="hpu"),
    }

    def books(gaudi, lazy):
        os.environ.update(HPUSHIM_GAUDI=gaudi, PT_HPU_LAZY_MODE=lazy)
        objections.enforce()
        found = {}
        ledger.device.load().record_sites(True, False)
        for name, run in CASES.items():
            ledger.reset()
            run()
            sites = [s["kind"] for s in ledger.snapshot()["sites"] if s["kind"] == "refused_dtype"]
            fallbacks = sorted(ledger.snapshot()["fallback_operators"])
            if sites or fallbacks:
                found[name] = fallbacks or ["refused"]
        return found

    print(json.dumps({f"{g} {l}": books(g, l) for g in ("gaudi1", "gaudi2", "gaudi3") for l in ("0", "1")}))
"""

LISTS = {
    "sum of int16": ["aten::sum.dim_IntList"],
    "product of matrices of int32": ["aten::mm"],
    "norm with bf16 weights": ["aten::native_batch_norm"],
}
OLD = {**LISTS, "half": ["refused"], "fp8": ["refused"], "complex": ["refused"]}
NEW = {**LISTS, "half": ["aten::nan_to_num.out"], "complex": ["refused"]}
WIDE = {**NEW, "roll of int64": ["aten::roll"], "index_add_": ["aten::index_add_"]}


def test_kernels_ask_for_dtypes_as_the_bridge_does(run: Callable[..., Any]) -> None:
    """Lists imply bool and double, look at the common type where the bridge does, and at single arguments."""
    found = json.loads(run(PROGRAM).stdout)
    assert found["gaudi1 0"] == found["gaudi1 1"]
    assert found["gaudi2 0"] == found["gaudi3 0"] == WIDE
    assert found["gaudi2 1"] == found["gaudi3 1"] == NEW
    old = {name: value for name, value in found["gaudi1 0"].items() if name != "half"}
    assert old == {name: value for name, value in OLD.items() if name != "half"}
    assert "half" in found["gaudi1 0"]


CAPTURE = """
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch
    x = torch.eye(3, device="hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        torch.linalg.svdvals(x)
"""


@pytest.mark.parametrize("policy", ["observe", "faithful"])
def test_a_captured_graph_cannot_leave_the_device(run: Callable[..., Any], policy: str) -> None:
    done = run(CAPTURE, check=False, HPUSHIM_POLICY=policy, PT_HPU_LAZY_MODE="1")
    if policy == "observe":
        assert done.returncode == 0, done.stderr[-2000:]
    else:
        assert "runs on the CPU on gaudi2, which is not possible while a graph is captured" in done.stderr  # fmt: skip
        assert "emulated" in done.stderr
