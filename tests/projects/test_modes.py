"""The demo project written for each execution mode and trained in it: marks, compiled graphs and losses on the emulated HPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import running
from test_char_gpt import BEFORE, needs_emulator

pytestmark = pytest.mark.usefixtures("served")

ITERATIONS, ACCUMULATION = 4, 2
WORDS = (
    f"--config config/verses.yaml --max_iters {ITERATIONS} --eval_interval {ITERATIONS} --dtype float32"
).split()
#: What the books say in each mode: marks (one for each backward pass and each step) and compiled graphs: the training's forward and
#: backward pass, the evaluation's forward pass for its full and for its short last batch.
EXPECTED = {
    "lazy": (ITERATIONS * (ACCUMULATION + 1), 0),
    "eager": (0, 0),
    "compile": (0, 4),
}


def _train(way: running.Way, copy: Path, device: str, at: Path, mode: str = "lazy") -> Any:
    metrics, books = at / "metrics.json", at / "ledger"
    words = ["train.py", *WORDS, "--device", device, "--out_dir", str(at / "out")]
    done = running.run(way, [*words, "--metrics", str(metrics)], copy, books, mode=mode)
    assert done.ok, done.tail(40)
    return done, json.loads(metrics.read_text())["losses"]


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    at = tmp_path_factory.mktemp("cpu")
    copy = running.fresh_copy(BEFORE, at / "char_gpt")
    _, losses = _train("plain", copy, "cpu", at)
    assert len(losses) == ITERATIONS
    return list(losses)


@needs_emulator
@pytest.mark.parametrize("mode", ["lazy", "eager", "compile"])
def test_the_demo_in_each_mode(mode: str, on_cpu: list[float], tmp_path: Path) -> None:
    copy = running.fresh_copy(BEFORE, tmp_path / "char_gpt")
    result = running.hpushim("migrate", "--allow-dirty", "--mode", mode, ".", cwd=copy)
    assert result.rc in (0, 1), result.tail()
    value = "1" if mode == "lazy" else "0"
    assert f"export PT_HPU_LAZY_MODE={value}" in (copy / "scripts" / "train.sh").read_text()

    running_mode = "lazy" if mode == "lazy" else "eager"
    done, losses = _train("native", copy, "hpu", tmp_path, running_mode)
    assert done.parameters() == {"hpu"}
    assert (done.total("mark_steps"), done.total("compiled_graphs")) == EXPECTED[mode]
    assert losses == pytest.approx(on_cpu, rel=1e-4)
