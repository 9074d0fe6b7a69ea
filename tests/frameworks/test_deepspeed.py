"""DeepSpeed's engine on the emulated HPU, two processes: ZeRO with the losses of torch alone on the CPU, checkpoints read again."""

from __future__ import annotations

from pathlib import Path

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("where", ["cuda", "hpu"])
@pytest.mark.parametrize("stage", ["0", "1", "2", "3"])
def test_zero(stage: str, where: str, tmp_path: Path) -> None:
    packages = ("torch", "deepspeed")
    _, reason = running.python_with(*packages)
    if reason:
        pytest.skip(reason)
    expected = running.train(packages, "deepspeed_zero.py", "cpu", "", 2, "0", "")["losses"]
    found = running.train(packages, "deepspeed_zero.py", where, "eager", 2, stage, str(tmp_path))
    assert found["accelerator"] == "HPU_Accelerator" and found["parameters"] == ["hpu"]
    running.numbers_agree(found["losses"], expected, 1e-5)
    before, after = found["losses"][3:]
    assert after == pytest.approx(before, rel=1e-6)
