"""``accelerate launch`` and ``deepspeed``, as people type them: their processes are armed and their files rewritten, the start line comes
once; jobs for CUDA train, unedited and migrated.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import framework_runs as running
import pytest

pytestmark = pytest.mark.slow

WAYS = {
    "run the module": ["{python}", "-m", "hpushim", "run", "-m", "accelerate.commands.launch"],
    "run the command": ["{python}", "-m", "hpushim", "run", "accelerate", "launch"],
    "the command, armed": ["{folder}/accelerate", "launch"],
}


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_accelerate_launch(way: str, processes: int) -> None:
    python = needed("torch", "accelerate")
    running.RUNS.add(running.Run(python, "cuda", "eager", processes))
    words = [word.format(python=python, folder=Path(python).parent) for word in WAYS[way]]
    options = ["--num_processes", str(processes), "--num_machines", "1", "--mixed_precision", "no"]
    options += ["--dynamo_backend", "no", "--main_process_port", str(running.free_port())]
    environment = running.environment("cuda", "eager", processes)
    if "armed" in way:
        environment["HPUSHIM"] = "emulate"
    done = subprocess.run(
        [*words, *options, str(running.PROGRAMS / "probe.py")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kind = "DistributedType.NO" if processes == 1 else "DistributedType.MULTI_HPU"
    expected = {"armed": True, "rewritten": True, "kind": kind, "sum": float(processes)}
    assert running.result(done.stdout) == expected
    assert done.stderr.count("CUDA calls run on an emulated HPU") == 1, done.stderr
    assert "HPU107" not in done.stderr


CONFIG = """compute_environment: LOCAL_MACHINE
distributed_type: 'NO'
mixed_precision: 'no'
num_machines: 1
num_processes: 1
use_cpu: true
"""
"""What ``accelerate config`` writes when it is told to train on the CPU only."""


@pytest.mark.parametrize("where", ["cuda", "hpu"])
@pytest.mark.parametrize("way", ["option", "answer", "neither"])
def test_launch_without_the_card(way: str, where: str, tmp_path: Path) -> None:
    python = needed("torch", "accelerate")
    (tmp_path / "config.yaml").write_text(CONFIG)
    options = {
        "option": ["--cpu", "--num_machines", "1", "--num_processes", "1"],
        "answer": ["--config_file", str(tmp_path / "config.yaml")],
        "neither": ["--num_machines", "1", "--num_processes", "1"],
    }[way]
    shim = ["-m", "hpushim", "run"] if where == "cuda" else []
    words = [python, *shim, "-m", "accelerate.commands.launch", *options, "--mixed_precision", "no"]
    text = output([*words, "--dynamo_backend", "no", str(running.PROGRAMS / "chosen.py")], where, 1)
    kind = "hpu" if way == "neither" else "cpu"
    assert running.result(text) == {"device": kind, "weight": kind}


JOBS = {
    "accelerate": ["accelerate", "launch", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no",
                   "--dynamo_backend", "no", "--main_process_port", "{port}"],
    "deepspeed": ["deepspeed", "--num_gpus", "2", "--master_port", "{port}"],
}  # fmt: skip


@pytest.mark.parametrize("way", ["unedited", "migrated"])
@pytest.mark.parametrize("launcher", JOBS)
def test_job(launcher: str, way: str, tmp_path: Path) -> None:
    python = needed("torch", launcher)
    job = running.PROGRAMS / f"{launcher}_job.py"
    where = "cuda" if way == "unedited" else "hpu"
    if way == "migrated":
        job = running.migrated(tmp_path, job)
    words = [word.format(port=running.free_port()) for word in JOBS[launcher]]
    words[0] = str(Path(python).parent / words[0])
    shim = [python, "-m", "hpushim", "run"] if where == "cuda" else []
    text = output([*shim, *words, str(job)], where, 2)
    found = running.ranks(text)
    # Accelerate knows hpu and asks for its backend; the other job asks for NCCL itself. `is_cuda` is rewritten.
    backend = "nccl" if (launcher, where) == ("deepspeed", "cuda") else "hccl"
    assert [(one["rank"], one["on_card"], one["backend"]) for one in found] == [
        (n, True, backend) for n in (0, 1)
    ]
    if launcher == "deepspeed":
        packages = ("torch", "deepspeed")
        cpu = running.train(packages, "deepspeed_zero.py", "cpu", "", 2, "0", "")["losses"][:4]
        running.numbers_agree(found[0]["losses"], cpu, 1e-5)
        return
    port = ["--nproc_per_node", "2", "--master_port", str(running.free_port())]
    job = running.PROGRAMS / "accelerate_job.py"
    cpu = running.ranks(output([python, "-m", "torch.distributed.run", *port, str(job)], "cpu", 2))
    running.numbers_agree([r["losses"] for r in found], [r["losses"] for r in cpu], 1e-6)


@pytest.mark.parametrize("where", ["cuda", "hpu"])
def test_first_example(where: str, tmp_path: Path) -> None:
    python = needed("torch", "accelerate", "timm", "torchvision", "pillow")
    corpora = os.environ.get("HPUSHIM_CORPORA", "")
    example = Path(corpora) / "huggingface+accelerate" / "examples" / "cv_example.py"
    if not corpora or not example.is_file():
        pytest.skip("HPUSHIM_CORPORA holds no huggingface+accelerate/examples/cv_example.py")
    made = [python, str(running.PROGRAMS / "pets.py"), str(tmp_path)]
    subprocess.run(made, check=True, timeout=300, env=running.environment("cpu", ""))
    original = example
    if where == "hpu":
        example = running.migrated(tmp_path, example)
    shim = ["-m", "hpushim", "run"] if where == "cuda" else []
    words = [python, *shim, "-m", "accelerate.commands.launch", "--num_processes", "1"]
    words += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    more = {"HF_HOME": str(tmp_path / "hf")}
    text = output([*words, str(example), "--data_dir", str(tmp_path / "images")], where, 1, more)
    alone = [python, str(original), "--cpu", "--data_dir", str(tmp_path / "images")]
    assert len(scores(text)) == 3, text
    assert scores(text) == scores(output(alone, "cpu", 1, more))


def scores(text: str) -> list[str]:
    """Its lines about accuracy, one for each epoch."""
    return [line for line in text.splitlines() if line.startswith("epoch")]


def needed(*packages: str) -> str:
    """A Python that has the packages; skips where there is none."""
    python, reason = running.python_with(*packages)
    if reason:
        pytest.skip(reason)
    return python


def output(words: list[str], where: str, processes: int, more: dict[str, str] | None = None) -> str:
    """What a command prints, noted for the table."""
    running.RUNS.add(running.Run(needed("torch", "accelerate"), where, "eager", processes))
    return running.output(words, where, processes, more)
