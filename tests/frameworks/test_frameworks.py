"""accelerate and transformers, unmodified, train on the emulated HPU with the losses of a CPU run: as programs for Gaudi
find it (hpu), and through the shim (cuda).
"""

from __future__ import annotations

from typing import Any

import framework_runs as running
import pytest

LIBRARIES = {
    "accelerate_loop.py": ("torch", "accelerate"),
    "transformers_trainer.py": ("torch", "transformers", "accelerate"),
}
PRECISE = {"accelerate_loop.py": ("no",), "transformers_trainer.py": ("bert", "no")}
pytestmark = pytest.mark.slow


@pytest.fixture(params=LIBRARIES)
def program(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    needed(*LIBRARIES[name])
    return name


def needed(*packages: str) -> None:
    """Skips where no Python has the packages."""
    _, reason = running.python_with(*packages)
    if reason:
        pytest.skip(reason)


def train(program: str, where: str, mode: str, processes: int, *arguments: str) -> dict[str, Any]:
    """The program's result."""
    return running.train(LIBRARIES[program], program, where, mode, processes, *arguments)


def _equal(found: dict[str, object], expected: dict[str, object], tolerance: float = 0.0) -> None:
    for what in ("losses", "weights"):
        running.numbers_agree(found[what], expected[what], tolerance, tolerance)


@pytest.mark.parametrize("where", ["hpu eager", "hpu lazy", "cuda eager"])
@pytest.mark.parametrize("processes", [1, 2])
def test_losses_are_those_of_the_cpu(program: str, where: str, processes: int) -> None:
    expected = train(program, "cpu", "", processes, *PRECISE[program])
    found = train(program, *where.split(), processes, *PRECISE[program])
    assert found["device"] == "hpu"
    assert found["parameters"] == ["hpu"]
    assert found["processes"] == expected["processes"] == processes
    assert found["backend"] == (None if processes == 1 else "hccl")
    _equal(found, expected, 1e-6)


@pytest.mark.parametrize(("where", "group"), [("hpu", "hccl"), ("cuda", "nccl")])
def test_backend_that_is_named(where: str, group: str) -> None:
    program = "transformers_trainer.py"
    needed(*LIBRARIES[program])
    expected = train(program, "cpu", "", 2, *PRECISE[program])
    found = train(program, where, "eager", 2, *PRECISE[program], "", group)
    # Code that asked for NCCL is told so of its group, which is HCCL's.
    assert found["parameters"] == ["hpu"] and found["backend"] == group
    _equal(found, expected, 1e-6)


def test_compiled(program: str) -> None:
    expected = train(program, "cpu", "", 1, *PRECISE[program])
    found = train(program, "hpu", "eager", 1, *PRECISE[program], "hpu_backend")
    assert found["parameters"] == ["hpu"]
    _equal(found, expected, 1e-5)


def test_bfloat16(program: str) -> None:
    arguments = (*PRECISE[program][:-1], "bf16")
    expected = train(program, "cpu", "", 1, *arguments)
    found = train(program, "hpu", "eager", 1, *arguments)
    assert found["parameters"] == ["hpu"]
    precise = train(program, "cpu", "", 1, *PRECISE[program])
    assert found["losses"] != precise["losses"], "autocast had no effect"
    _equal(found, expected, 0.02)


@pytest.mark.parametrize("processes", [1, 2])
def test_float16_is_bfloat16_under_the_shim(program: str, processes: int) -> None:
    kind = PRECISE[program][:-1]
    expected = train(program, "cpu", "", processes, *kind, "fp16")
    found = train(program, "cuda", "eager", processes, *kind, "fp16")
    assert found["parameters"] == ["hpu"]
    _equal(found, expected, 0.02)


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_grouped_attention_model(precision: str) -> None:
    needed(*LIBRARIES["transformers_trainer.py"])
    expected = train("transformers_trainer.py", "cpu", "", 1, "llama", precision)
    found = train("transformers_trainer.py", "hpu", "eager", 1, "llama", precision)
    _equal(found, expected, 1e-6 if precision == "no" else 0.02)


@pytest.mark.parametrize("where", ["hpu", "cuda"])
@pytest.mark.parametrize("version", ["1", "2"])
def test_fully_sharded(version: str, where: str) -> None:
    needed(*LIBRARIES["accelerate_loop.py"])
    expected = train("accelerate_loop.py", "cpu", "", 2, "no", "", version)
    found = train("accelerate_loop.py", where, "eager", 2, "no", "", version)
    assert found["parameters"] == ["hpu"] and found["backend"] == "hccl"
    _equal(found, expected, 1e-5)
