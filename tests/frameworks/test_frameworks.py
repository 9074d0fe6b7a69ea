"""accelerate and transformers, unmodified, train on the emulated HPU with the losses of a CPU run."""

from __future__ import annotations

import framework_runs as running
import pytest

LIBRARIES = {
    "accelerate_loop.py": ("accelerate",),
    "transformers_trainer.py": ("transformers", "accelerate"),
}
PRECISE = {"accelerate_loop.py": ("no",), "transformers_trainer.py": ("bert", "no")}
pytestmark = pytest.mark.slow


@pytest.fixture(params=LIBRARIES)
def program(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    reason = running.missing("torch", *LIBRARIES[name]) or running.no_device()
    if reason:
        pytest.skip(reason)
    return name


def _equal(found: dict[str, object], expected: dict[str, object], tolerance: float = 0.0) -> None:
    for what in ("losses", "weights"):
        assert found[what] == pytest.approx(expected[what], rel=tolerance, abs=tolerance), what


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("processes", [1, 2])
def test_losses_are_those_of_the_cpu(program: str, mode: str, processes: int) -> None:
    expected = running.train(program, "cpu", "", processes, *PRECISE[program])
    found = running.train(program, "hpu", mode, processes, *PRECISE[program])
    assert found["device"] == "hpu"
    assert found["parameters"] == ["hpu"]
    assert found["processes"] == expected["processes"] == processes
    assert found["backend"] == (None if processes == 1 else "hccl")
    _equal(found, expected, 1e-6)


def test_compiled(program: str) -> None:
    expected = running.train(program, "cpu", "", 1, *PRECISE[program])
    found = running.train(program, "hpu", "eager", 1, *PRECISE[program], "hpu_backend")
    assert found["parameters"] == ["hpu"]
    _equal(found, expected, 1e-5)


def test_bfloat16(program: str) -> None:
    arguments = (*PRECISE[program][:-1], "bf16")
    expected = running.train(program, "cpu", "", 1, *arguments)
    found = running.train(program, "hpu", "eager", 1, *arguments)
    assert found["parameters"] == ["hpu"]
    precise = running.train(program, "cpu", "", 1, *PRECISE[program])
    assert found["losses"] != precise["losses"], "autocast had no effect"
    _equal(found, expected, 0.02)


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_grouped_attention_model(precision: str) -> None:
    reason = running.missing("torch", "transformers") or running.no_device()
    if reason:
        pytest.skip(reason)
    expected = running.train("transformers_trainer.py", "cpu", "", 1, "llama", precision)
    found = running.train("transformers_trainer.py", "hpu", "eager", 1, "llama", precision)
    _equal(found, expected, 1e-6 if precision == "no" else 0.02)
