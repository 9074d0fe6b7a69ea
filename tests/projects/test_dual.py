"""The demo project in the dual style: as it was on a CPU, bit by bit, and on the emulated HPU, from one text."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import running
from running import Run, Way

pytestmark = pytest.mark.usefixtures("served")

BEFORE = Path(__file__).resolve().parent / "char_gpt" / "before"
torch_missing = importlib.util.find_spec("torch") is None
compiler_missing = shutil.which("g++") is None and shutil.which("clang++") is None
needs_emulator = pytest.mark.skipif(
    torch_missing or compiler_missing, reason="needs torch and a C++ compiler for the emulated HPU"
)


@pytest.fixture(scope="module")
def dual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = running.fresh_copy(BEFORE, tmp_path_factory.mktemp("dual") / "char_gpt")
    result = running.hpushim("migrate", "--style", "dual", "--allow-dirty", ".", cwd=copy)
    assert result.rc in (0, 1), result.tail()
    return copy


def train(way: Way, copy: Path, device: str, to: Path) -> tuple[Run, dict[str, Any]]:
    """One short training, and its metrics."""
    metrics = to / f"{way}-{device}-{copy.name}.json"
    words = (
        f"train.py --config config/verses.yaml --max_iters 3 --eval_interval 3 --dtype float32 "
        f"--device {device} --out_dir {to / metrics.stem} --metrics {metrics}"
    )
    result = running.run(way, words.split(), copy, to / f"{metrics.stem}.ledger")
    assert result.ok, result.tail()
    return result, json.loads(metrics.read_text())


def test_a_second_migrate_changes_nothing(dual: Path) -> None:
    before = running.snapshot(dual)
    result = running.hpushim("migrate", "--style", "dual", "--allow-dirty", ".", cwd=dual)
    assert result.rc in (0, 1), result.tail()
    assert running.snapshot(dual) == before


@needs_emulator
def test_one_text_for_every_machine(dual: Path, tmp_path: Path) -> None:
    original = running.fresh_copy(BEFORE, tmp_path / "original")
    _, wanted = train("plain", original, "cpu", tmp_path)
    _, plain = train("plain", dual, "cpu", tmp_path)
    assert plain["final_loss"] == wanted["final_loss"]  # bit by bit
    result, emulated = train("native", dual, "hpu", tmp_path)
    assert running.relative(emulated["final_loss"], wanted["final_loss"]) < 1e-4
    assert result.parameters() == {"hpu"} and result.share() > 0.99
