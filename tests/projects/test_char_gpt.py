"""The demo project: what migrate makes of it, and two processes of it on emulated cards."""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import golden
import pytest
import running

pytestmark = pytest.mark.usefixtures("served")

HERE = Path(__file__).resolve().parent
BEFORE = HERE / "char_gpt" / "before"
torch_missing = importlib.util.find_spec("torch") is None
compiler_missing = shutil.which("g++") is None and shutil.which("clang++") is None
needs_emulator = pytest.mark.skipif(
    torch_missing or compiler_missing, reason="needs torch and a C++ compiler for the emulated HPU"
)


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    return golden.migrate(tmp_path_factory.mktemp("golden"))


def test_migrated_as_kept(migrated: tuple[Path, dict[str, Any]]) -> None:
    found = golden.differences(*migrated)
    assert not found, f"{found} differ; if that is meant: python tests/projects/golden.py --update"


def test_second_migrate_changes_nothing(migrated: tuple[Path, dict[str, Any]]) -> None:
    copy, _ = migrated
    before = running.snapshot(copy)
    result = running.hpushim("migrate", "--allow-dirty", ".", cwd=copy)
    assert result.rc in (0, 1), result.tail()
    assert running.snapshot(copy) == before


def test_undo_restores_every_byte_and_untouched_files_keep_their_time(tmp_path: Path) -> None:
    copy = running.fresh_copy(BEFORE, tmp_path / "char_gpt")
    before = running.snapshot(copy)
    assert running.hpushim("migrate", "--allow-dirty", ".", cwd=copy).rc in (0, 1)
    after = running.snapshot(copy)
    changed = {name for name in before if before[name][0] != after[name][0]}
    assert {"train.py", "scripts/train.sh", "Dockerfile"} <= changed
    assert {name for name in before if before[name] != after[name]} == changed
    assert "data/verses.txt" not in changed

    undone = running.hpushim("migrate", "--undo", ".", cwd=copy)
    assert undone.rc == 0, undone.tail()
    assert {name: data for name, (data, _) in running.snapshot(copy).items()} == {
        name: data for name, (data, _) in before.items()
    }


def _train(copy: Path, way: running.Way, *options: str) -> dict[str, Any]:
    metrics = copy / "metrics.json"
    metrics.unlink(missing_ok=True)
    words = ["train.py", "--config", "config/verses.yaml", "--metrics", str(metrics), *options]
    result = running.run(way, words, copy)
    assert result.ok, result.tail(40)
    found: dict[str, Any] = json.loads(metrics.read_text())
    return found


@needs_emulator
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_resumed_run_goes_on_as_on_cpu(tmp_path: Path, dtype: str) -> None:
    copy = running.fresh_copy(BEFORE, tmp_path / "char_gpt")
    # the learning rate follows max_iters: keep it out of this
    same = ["--dtype", dtype, "--min_lr", "1e-3", "--warmup_iters", "0", "--log_interval", "1"]
    _train(copy, "shim", *same, "--max_iters", "4", "--eval_interval", "4")
    again = [*same, "--max_iters", "5", "--resume", "out/last.pt", "--out_dir", "again"]
    resumed = _train(copy, "shim", *again)
    assert resumed["iterations"] == 1
    assert resumed["device"].startswith("hpu")
    on_cpu = _train(copy, "plain", *again, "--device", "cpu")
    limit = 0.05 if dtype == "float16" else 1e-4
    assert resumed["losses"][0] == pytest.approx(on_cpu["losses"][0], rel=limit)


@needs_emulator
@pytest.mark.slow
def test_checkpoint_of_the_shim_is_sampled_on_hpu_and_on_cpu(tmp_path: Path) -> None:
    copy = running.fresh_copy(BEFORE, tmp_path / "char_gpt")
    _train(copy, "shim", "--dtype", "float32", "--max_iters", "4")
    words = ["sample.py", "out/last.pt", "--tokens", "20", "--prompt", "The harbour"]
    for way, options in (("shim", []), ("plain", ["--no-cuda"])):
        result = running.run(way, [*words, *options], copy)
        assert result.ok, result.tail(40)
        assert "The harbour" in result.output


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _two_processes(copy: Path, way: running.Way, device: str, out: Path) -> list[dict[str, Any]]:
    import torch

    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launcher += ["--master-addr", "127.0.0.1", "--master-port", str(_free_port())]
    shim = [] if way == "plain" else ["-m", *running.prefix(way)[2:]]
    options = ["--config", "config/verses.yaml", "--max_iters", "6", "--eval_interval", "6"]
    options += ["--dtype", "float32", "--device", device, "--out_dir", str(out)]
    result = running.execute(
        [*launcher, *shim, "ranks.py", str(out), *options],
        copy,
        env={**running.variables(way), "HPUSHIM_DEVICES": "2"},
    )
    assert result.ok, result.tail(40)
    assert "2 processes" in result.output
    return [torch.load(f"{out}.rank{rank}.pt", weights_only=True) for rank in (0, 1)]


@needs_emulator
@pytest.mark.slow
@pytest.mark.parametrize("way", ["shim", "native"])
def test_two_processes_train_as_gloo_does(tmp_path: Path, way: running.Way) -> None:
    import torch

    copy = running.fresh_copy(BEFORE, tmp_path / "char_gpt")
    shutil.copy(HERE / "ranks.py", copy)
    on_cpu = _two_processes(copy, "plain", "cpu", tmp_path / "gloo")
    if way == "native":
        migrated = running.hpushim("migrate", "--allow-dirty", ".", cwd=copy)
        assert migrated.rc in (0, 1), migrated.tail()
    device = "hpu" if way == "native" else "cuda"
    on_hpu = _two_processes(copy, way, device, tmp_path / "hccl")

    assert [state["backend"] for state in on_cpu] == ["gloo", "gloo"]
    assert [state["backend"] for state in on_hpu] == ["hccl", "hccl"]
    assert {state["device"] for state in on_hpu} == {"hpu:0"}
    for name, weight in on_hpu[0]["weights"].items():
        assert torch.equal(weight, on_hpu[1]["weights"][name]), f"{name} differs between the ranks"
        torch.testing.assert_close(weight, on_cpu[0]["weights"][name], rtol=1e-4, atol=1e-6)
