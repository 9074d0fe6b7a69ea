"""What ``migrate`` writes for frameworks, run natively on the emulated HPU: losses as on the CPU."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow

LIGHTNING = ("torch", "lightning>=2.5.6")
PROGRAM = running.PROGRAMS / "lightning_native.py"


def python_with(*packages: str) -> str:
    python, reason = running.python_with(*packages)
    if reason:
        pytest.skip(reason)
    return python


def result(words: list[str], where: str, processes: int = 1) -> dict[str, Any]:
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        env=running.environment(where, "eager", processes),
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return running.result(done.stdout)


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("way", ["trainer", "fabric"])
def test_lightning_that_knows_no_gaudi(
    way: str, processes: int, precision: str, tmp_path: Path
) -> None:
    python = python_with(*LIGHTNING)
    running.RUNS.add(running.Run(python, "hpu", "eager", processes))
    plain = tmp_path / "plain.py"
    text = PROGRAM.read_text(encoding="utf-8")
    # The CPU's run says so; the program as it is would choose CUDA, or refuse.
    plain.write_text(
        text.replace('accelerator="gpu"', 'accelerator="cpu"').replace(
            "Fabric(d", 'Fabric(accelerator="cpu", d'
        )
    )
    half = "bf16-mixed" if "16" in precision else precision
    expected = result([python, str(plain), way, str(processes), half], "cpu")
    copy = running.migrated(tmp_path, PROGRAM)
    assert "hpushim.lightning.HPUAccelerator()" in copy.read_text(encoding="utf-8")
    found = result([python, str(copy), way, str(processes), precision], "hpu", processes)
    assert found.pop("device") == "hpu" and expected.pop("device") == "cpu"
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        running.numbers_agree(found[name], value, 0.02 if "16" in precision else 1e-5)


@pytest.mark.parametrize("way", ["trainer", "fabric"])
def test_lightning_marks_its_steps_as_the_shim_does(way: str, tmp_path: Path) -> None:
    shutil.copy(PROGRAM, tmp_path)
    words = [python_with(*LIGHTNING), "-m", "hpushim", "prove", "--steps", "4", "--no-cpu"]
    done = subprocess.run(
        [*words, PROGRAM.name, way, "1", "32-true"],
        cwd=tmp_path,
        env=running.environment("cpu", "lazy"),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.stdout.startswith("equal: over 4 optimizer steps"), done.stdout + done.stderr
    assert "no mark_step" not in done.stdout


def test_ray_train_asks_for_gaudi(tmp_path: Path) -> None:
    python = python_with("torch", "ray")
    copy = running.migrated(tmp_path, running.PROGRAMS / "ray_train.py")
    told: dict[str, list[dict[str, Any]]] = {}
    for where, program in (("cpu", running.PROGRAMS / "ray_train.py"), ("hpu", copy)):
        place = tmp_path / where
        place.mkdir()
        done = subprocess.run(
            [python, str(program), where, str(place)],
            capture_output=True,
            text=True,
            check=False,
            env=running.environment(where, "eager", 2) | {"RAY_USAGE_STATS_ENABLED": "0"},
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        told[where] = [json.loads((place / f"{n}.json").read_text()) for n in (0, 1)]
    for where, backend in (("cpu", "gloo"), ("hpu", "hccl")):
        assert [(one.pop("on"), one.pop("backend")) for one in told[where]] == [
            (where, backend)
        ] * 2
    assert told["hpu"] == told["cpu"]


def test_strategies_that_are_not_adapted_are_refused() -> None:
    python = python_with(*LIGHTNING)
    code = (
        "from lightning import Trainer; import hpushim.lightning as h; "
        "Trainer(accelerator=h.HPUAccelerator(), devices=1, strategy='fsdp')"
    )
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=running.environment("hpu", "eager"),
        timeout=300,
    )
    assert done.returncode and "FSDPStrategy is not adapted to Gaudi" in done.stderr, done.stderr


def test_ignite_imports(tmp_path: Path) -> None:
    python = python_with("torch", "pytorch-ignite")
    where = subprocess.run(
        [python, "-c", "import importlib.util as u; print(u.find_spec('ignite').origin)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    running.migrated(tmp_path, Path(where).parent)
    code = (
        "import importlib, pkgutil, sys; sys.path.insert(0, sys.argv[1]); import ignite, ignite.distributed as idist\n"
        "assert ignite.__file__.startswith(sys.argv[1])\n"
        "for one in pkgutil.walk_packages(ignite.__path__, 'ignite.'): importlib.import_module(one.name)\n"
        "assert idist.device().type == 'hpu' and 'hccl' in idist.available_backends(), idist.available_backends()\n"
        "print('RESULT {}')"
    )
    assert result([python, "-c", code, str(tmp_path)], "hpu") == {}
