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
    _, reason = running.python_with(*packages)
    if reason:
        pytest.skip(reason)
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
    assert flat(found) == pytest.approx(flat(expected), rel=tolerance, abs=1e-6)


def flat(value: Any) -> list[Any]:
    """The numbers and words of nested lists."""
    if not isinstance(value, list):
        return [value]
    return [one for part in value for one in flat(part)]


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
def test_lightning_with_two_processes(precision: str) -> None:
    packages = RUNS["lightning_claims.py", "cuda"]
    _, reason = running.python_with(*packages)
    if reason:
        pytest.skip(reason)
    expected = running.train(packages, "lightning_ddp.py", "cpu", "", 2, precision)
    found = running.train(packages, "lightning_ddp.py", "cuda", "eager", 2, precision)
    # Lightning asks torch for the backend of its device, so nobody here asked for NCCL.
    assert found.pop("device") == "hpu" and found.pop("backend") == "hccl"
    tolerance = 0.02 if "16" in precision else 1e-5
    assert found["losses"] == pytest.approx(expected["losses"], rel=tolerance)
    assert found["weights"] == pytest.approx(expected["weights"], rel=tolerance)
