"""Jobs as clusters start them, unedited and for CUDA: Open MPI, Slurm, Ray. Every rank is armed. The engines are real; what is not
installed is skipped, and says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow

JOB = running.PROGRAMS / "ranks.py"
SCRIPT = """#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --output={place}/out.txt
srun {python} {job}
"""


def expected() -> list[dict[str, Any]]:
    return [{"rank": n, "world": 2, "sum": 3.0, "is_cuda": True, "kept": True} for n in (0, 1)]


def environment() -> dict[str, str]:
    pytest.importorskip("torch", reason="the job is torch's")
    found = running.environment("cuda", "eager", 2)
    found = {k: v for k, v in found.items() if not k.startswith(("OMPI_", "SLURM_JOB", "PMIX_"))}
    return found | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(running.free_port())}


def run(words: list[str], env: dict[str, str]) -> str:
    where = "cuda" if env.get("HPUSHIM") != "off" else "cpu"
    running.RUNS.add(running.Run(words[0] if "python" in words[0] else sys.executable, where, "eager", 2))  # fmt: skip
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    assert "NOTHING RAN ON HPU" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("way", ["run starts mpirun", "mpirun starts run", "armed"])
def test_open_mpi(way: str) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun (Open MPI) is not installed")
    python, shim = [sys.executable], [sys.executable, "-m", "hpushim", "run"]
    start = ["mpirun", "--oversubscribe", "-np", "2"]
    start += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    env = environment()
    words = {
        "run starts mpirun": [*shim, *start, *python, str(JOB)],
        "mpirun starts run": [*start, *shim, str(JOB)],
        "armed": [*start, *python, str(JOB)],
    }
    env |= {"HPUSHIM": "emulate"} if way == "armed" else {}
    assert running.ranks(run(words[way], env)) == expected()


@pytest.mark.parametrize("way", ["run starts srun", "srun, armed", "sbatch, armed"])
def test_slurm(way: str, tmp_path: Path) -> None:
    if shutil.which("srun") is None:
        pytest.skip("Slurm is not installed")
    known = subprocess.run(["sinfo", "-h", "-t", "idle"], capture_output=True, check=False)
    if known.returncode or not known.stdout.strip():
        pytest.skip("no Slurm cluster answers, or none of its machines is idle")
    env = environment()
    if way == "run starts srun":
        words = [sys.executable, "-m", "hpushim", "run", "srun", "-n", "2"]
        assert running.ranks(run([*words, sys.executable, str(JOB)], env)) == expected()
        return
    env["HPUSHIM"] = "emulate"
    if way == "srun, armed":
        found = run(["srun", "-n", "2", sys.executable, str(JOB)], env)
    else:
        script = tmp_path / "job.sh"
        script.write_text(SCRIPT.format(place=tmp_path, python=sys.executable, job=JOB))
        run(["sbatch", "--wait", str(script)], env)
        found = (tmp_path / "out.txt").read_text()
    assert running.ranks(found) == expected()


def test_ray_train(tmp_path: Path) -> None:
    python, reason = running.python_with("torch", "ray")
    if reason:
        pytest.skip(reason)
    results = {}
    for where in ("cpu", "cuda"):
        place = tmp_path / where
        place.mkdir()
        shim = ["-m", "hpushim", "run"] if where == "cuda" else []
        env = running.environment(where, "eager", 2) | {"RAY_USAGE_STATS_ENABLED": "0"}
        run([python, *shim, str(running.PROGRAMS / "ray_train.py"), where, str(place)], env)
        results[where] = [json.loads((place / f"{n}.json").read_text()) for n in (0, 1)]
    assert [one.pop("on") for one in results["cuda"]] == ["hpu", "hpu"]
    assert [one.pop("backend") for one in results["cuda"]] == ["nccl", "nccl"]
    for one in results["cpu"]:
        assert (one.pop("on"), one.pop("backend")) == ("cpu", "gloo")
    assert results["cuda"] == results["cpu"]


@pytest.mark.parametrize("where", ["cuda", "hpu"])
def test_ray_by_number_and_by_name(where: str, tmp_path: Path) -> None:
    """A task, a placement group and Tune get cards, under the shim as "GPU" and migrated as "HPU"."""
    python, reason = running.python_with("torch", "ray", "pandas", "pyarrow")
    if reason:
        pytest.skip(reason)
    program = running.PROGRAMS / "ray_resources.py"
    if where == "hpu":
        program = running.migrated(tmp_path, program)
        assert "GPU" not in program.read_text(encoding="utf-8").partition('"""\n')[2]
    shim = ["-m", "hpushim", "run"] if where == "cuda" else []
    env = running.environment(where, "eager", 2) | {"RAY_USAGE_STATS_ENABLED": "0"}
    run([python, *shim, str(program), where, str(tmp_path)], env | {"HOME": str(tmp_path)})
    running.RUNS.add(running.Run(python, where, "eager", 2))
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == {"cards": 2, "task": [8.0, "hpu"], "trials": [[3.0, "hpu"], [6.0, "hpu"]]}
