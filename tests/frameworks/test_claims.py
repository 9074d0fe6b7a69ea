"""What the libraries' pages promise on Gaudi, with the libraries themselves, claim by claim: equal to the CPU's result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow

# program, where and mode: the packages it takes
RUNS = {
    ("accelerate_claims.py", "hpu"): ("torch", "accelerate"),
    ("accelerate_claims.py", "cuda"): ("torch", "accelerate"),
    ("transformers_claims.py", "hpu"): ("torch", "transformers", "accelerate"),
    ("transformers_claims.py", "cuda"): ("torch", "transformers", "accelerate"),
    ("lightning_claims.py", "hpu"): ("torch", "lightning<2.5.6", "lightning-habana"),
    ("lightning_claims.py", "cuda"): ("torch", "lightning>=2.5.6"),
    ("optimum_claims.py", "hpu"): ("torch", "optimum-habana", "torchvision"),
    ("optimum_claims.py", "hpu lazy"): ("torch", "optimum-habana", "torchvision"),
}
OTHERWISE: dict[tuple[str, str], Any] = {
    ("accelerate_claims.py", "device"): "hpu",
    ("transformers_claims.py", "device_is_found"): "hpu",
    ("transformers_claims.py", "compile_backend_is_chosen"): "hpu_backend",
    ("optimum_claims.py", "minimize_memory"): "true",
}
ABSENT = {
    ("lightning_claims.py", "hpu", "fabric"): "invalid accelerator name",
}
"""What does not work there, which is no fault of the device: Lightning's Fabric does not know hpu by name."""


def claims(program: str) -> list[str]:
    """The names of a program's claims."""
    text = (running.PROGRAMS / program).read_text(encoding="utf-8")
    return re.findall(r"^@claim\ndef (\w+)", text, re.MULTILINE)


CASES = [(*run, name) for run in RUNS for name in claims(run[0])]


@pytest.mark.parametrize(("program", "where", "name"), CASES, ids=lambda part: Path(part).stem)
def test_claim(program: str, where: str, name: str) -> None:
    packages = RUNS[program, where]
    needed(*packages)
    place, _, mode = where.partition(" ")
    found = running.train(packages, program, place, mode or "eager")[name]
    if (program, where, name) in ABSENT:
        assert ABSENT[program, where, name] in found
        return
    expected = running.train(packages, program, "cpu")[name]
    expected = OTHERWISE.get((program, name), expected)
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
        return
    tolerance = 0.02 if name in ("bfloat16", "float16") else 1e-5
    if program == "optimum_claims.py":
        tolerance = 1e-3  # it rounds losses to four digits, and its fused AdamW adds eps elsewhere
    running.numbers_agree(found, expected, tolerance, 1e-6)


@pytest.mark.parametrize(
    ("precision", "devices"), [("32-true", 2), ("16-mixed", 2), ("32-true", 8)]
)
def test_lightning_with_several_devices(precision: str, devices: int) -> None:
    packages = RUNS["lightning_claims.py", "cuda"]
    needed(*packages)
    words = (precision, str(devices))
    expected = running.train(packages, "lightning_ddp.py", "cpu", "", devices, *words)
    found = running.train(packages, "lightning_ddp.py", "cuda", "eager", devices, *words)
    # Lightning asks torch for the backend of its device, so nobody here asked for NCCL.
    assert found.pop("device") == "hpu" and found.pop("backend") == "hccl"
    tolerance = 0.02 if "16" in precision else 1e-5
    running.numbers_agree(found["losses"], expected["losses"], tolerance)
    running.numbers_agree(found["weights"], expected["weights"], tolerance)


def test_the_last_lightning_for_gaudi_with_two_devices() -> None:
    packages = RUNS["lightning_claims.py", "hpu"]
    needed(*packages)
    with pytest.raises(AssertionError, match="device_id"):
        running.train(packages, "lightning_ddp.py", "hpu", "eager", 2, "32-true", "2")


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize(
    ("strategy", "processes", "hosts"), [("decoder", 2, 1), ("fast_ddp", 2, 1), ("decoder", 2, 2), ("decoder", 8, 1)]
)  # fmt: skip
def test_optimum_with_several_cards(strategy: str, processes: int, hosts: int, mode: str) -> None:
    packages = RUNS["optimum_claims.py", "hpu"]
    needed(*packages)
    if processes == 8 and mode == "lazy":
        pytest.skip("eight processes are run in eager mode alone: they take two minutes")
    run = (packages, "optimum_claims.py")
    expected = running.train(*run, "cpu", "", processes, "decoder")["decoder"]
    found = running.train(*run, "hpu", mode, processes, strategy, hosts=hosts)[strategy]
    if (strategy, mode) == ("fast_ddp", "eager"):
        assert "HPUGraph" in found, "it records HPU graphs, which exist in lazy mode only"
        return
    # Its sum of gradients goes through a buffer of bfloat16.
    running.numbers_agree(found, expected, 0.02 if strategy == "fast_ddp" else 1e-3)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_context_parallel_divides_sequences(mode: str) -> None:
    packages = RUNS["optimum_claims.py", "hpu"]
    needed(*packages)
    found = running.train(packages, "optimum_claims.py", "hpu", mode, 2, "context_parallel")
    assert found["context_parallel"] == [2, "hccl", "hpu", [list(range(6))]]


def needed(*packages: str) -> None:
    """Skips where no Python has the packages."""
    _, reason = running.python_with(*packages)
    if reason:
        pytest.skip(reason)
