"""hccl under torchrun: every collective and every way to train, equal to gloo on the CPU element by element; its limits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import warm
from crossed import EVERY
from environments import plain_environment

HERE = Path(__file__).parent


def launch(ranks: int, program: str, *words: str, **env: str) -> str:
    """What rank 0 printed."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
        str(HERE / program),
    ]
    result = warm.run(
        [*command, *words],
        env=plain_environment(**env),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout + "\n" + result.stderr


def printed(output: str) -> dict[str, Any]:
    return json.loads(next(line for line in output.splitlines() if line.startswith("{")))


FOUR = pytest.param(4, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("ranks", "how", "equal", "refused"),
    [
        (2, "hccl", 138, 11),
        pytest.param(2, "mixed", 139, 3, marks=pytest.mark.slow),
        pytest.param(2, "default", 138, 11, marks=pytest.mark.slow),
        pytest.param(4, "hccl", 138, 11, marks=pytest.mark.slow),
        pytest.param(4, "mixed", 139, 3, marks=pytest.mark.slow),
    ],
)
def test_every_collective_equals_gloo(ranks: int, how: str, equal: int, refused: int) -> None:
    found = printed(launch(ranks, "hccl_collectives.py", how))
    assert (found["equal"], found["refused"]) == (equal, refused)


# What torch does not run on the CPU, and the way on the CPU that gives the same weights.
INSTEAD = {"fsdp1_offload": "fsdp1_flat"}


@pytest.mark.parametrize("ranks", [2, FOUR])
def test_training_equals_gloo_on_the_cpu(tmp_path: Path, ranks: int) -> None:
    books_at = tmp_path / "ledger.json"
    files = {where: tmp_path / f"{where}.pt" for where in ("cpu", "hpu")}
    steps = (
        "20" if EVERY else "6"
    )  # enough for each branch, and for PowerSGD, which begins with the third
    launch(ranks, "hccl_training.py", "cpu", str(files["cpu"]), str(tmp_path), STEPS=steps)
    launch(
        ranks,
        "hccl_training.py",
        "hpu",
        str(files["hpu"]),
        str(tmp_path),
        HPUSHIM_LEDGER=str(books_at),
        STEPS=steps,
    )
    expected, got = (torch.load(files[where]) for where in ("cpu", "hpu"))
    assert set(got) == set(expected) and len(got) >= (23 if ranks == 2 else 25)
    for way, weights in got.items():
        reference = expected[INSTEAD.get(way, way)]
        assert not isinstance(weights, str), (way, weights)
        assert not isinstance(reference, str), (way, reference)
        for a, b in zip(weights, reference, strict=True):
            assert torch.equal(a, b), way
    books = json.loads(books_at.read_text())
    assert books["collectives"] > 20
    assert {"backend": "hccl", "device": "hpu", "size": ranks} in books["process_groups"]
    assert sorted(p.name for p in tmp_path.glob("ledger.json.*")) == [
        f"ledger.json.rank{i}" for i in range(1, ranks)
    ]


FINE = {
    "SUM": [4.0, 4.0],
    "MIN": [2.0, 2.0],
    "MAX": [2.0, 2.0],
    "bool": [True, True],
    "fp8": [2.0, 2.0],
    "few digits": [14],
    "reduce_scatter float32": [2.0, 2.0],
    "reduce_scatter_tensor int32": [2, 2],
    "all_to_all even": [1] * 4,
    "broadcast odd": [1] * 3,
}
# What runs on under `observe`, and what HCCL says to it.
LIMITS = {
    "PRODUCT": [4.0, 4.0],
    "AVG": [2.0, 2.0],
    "BAND": [1, 1],
    "BOR": [1, 1],
    "BXOR": [0, 0],
    "int16": [2, 2],
    "reduce_scatter int64": [2, 2],
    "reduce_scatter_tensor int64": [2, 2],
    "all_to_all odd": [1] * 6,
    "any source": "received",
}
AGAIN = {"AVG of int64": [3]}  # told already, as AVG
DIGITS = {"digits": 2 * (2**24 + 1), "digits of int32": 2 * (2**25 + 1)}


def test_limits_are_told_and_the_run_goes_on() -> None:
    output = launch(2, "hccl_limits.py", HPUSHIM_LOG="sites")
    got = printed(output)
    kind, text = got["found"].pop("gloo")
    assert (
        kind == "RuntimeError" and "hccl_limits.py:" in text and "carries CPU tensors only" in text
    )
    assert got["found"] == {
        **FINE,
        **LIMITS,
        **AGAIN,
        **{name: [value] for name, value in DIGITS.items()},
    }
    assert got["limits"] == len(LIMITS)
    told = [line for line in output.splitlines() if "HPU313" in line or "HPU324" in line]
    assert len(told) == len(LIMITS) + len(DIGITS), "each once in the process, from rank 0"
    assert all("hccl_limits.py:" in line and "(emulated)" in line for line in told)
    assert any("ReduceOp.AVG" in line and "divide by the world size" in line for line in told)


@pytest.mark.parametrize("policy", ["faithful", pytest.param("strict", marks=pytest.mark.slow)])
def test_limits_are_errors_as_on_the_device(policy: str) -> None:
    found = printed(launch(2, "hccl_limits.py", HPUSHIM_POLICY=policy))["found"]
    assert {name: found[name] for name in FINE} == FINE
    for name in LIMITS:
        kind, text = found[name]
        code = "HPU324" if name == "AVG" else "HPU313"
        assert kind == "NotImplementedError" and code in text, (name, text)
        assert "hccl_limits.py:" in text and "emulated" in text
    for name, exact in DIGITS.items():
        if policy == "strict":
            assert "lose digits" in found[name][1]
        else:  # summed in float32, which has not all of these numbers
            assert found[name] == [2 * int(torch.tensor(exact / 2, dtype=torch.float32).item())]


@pytest.mark.slow
def test_fsdp2_averages_and_hccl_does_not(tmp_path: Path) -> None:
    """torch's fully_shard reduces with AVG: an error as on the device, and the sum that it offers runs."""
    target = tmp_path / "hpu.pt"
    ways = ("fsdp2_plain", "fsdp2_sum", "fsdp1_original_parameters", "ddp", "tensor_parallel")
    words = ("hpu", str(target), str(tmp_path), *ways)
    launch(2, "hccl_training.py", *words, HPUSHIM_POLICY="faithful")
    found = torch.load(target)
    assert "ReduceOp.AVG over hccl does not work on gaudi2" in found.pop("fsdp2_plain")
    assert len(found) == 4 and not any(isinstance(weights, str) for weights in found.values())
