"""What ``migrate`` writes for compose, Kubernetes and Slurm, validated by their own tools and schemas.

The schemas are third-party files and no part of this tree: HPUSHIM_SCHEMAS names a folder with ``compose-spec.json`` (of
compose-spec/compose-spec) and the custom resources ``kubeflow.org_mpijobs.yaml`` (of kubeflow/mpi-operator) and
``kubeflow.org_pytorchjobs.yaml`` (of kubeflow/training-operator, 1.9). No cluster has run any of these files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import framework_runs as running
import pytest
import yaml

COMPOSE = """services:
  train:
    image: pytorch/pytorch:2.5.1-cuda12.1-cudnn9-runtime
    runtime: nvidia
    shm_size: 16gb
    environment:
      NVIDIA_VISIBLE_DEVICES: all
      NCCL_DEBUG: INFO
    command: torchrun --nproc_per_node=8 train.py
  score:
    image: python:3.11
    gpus: all
    environment:
      - NVIDIA_VISIBLE_DEVICES=0
    command: ["python", "score.py", "--device", "cuda"]
"""
_POD = """containers:
  - name: train
    image: nvcr.io/nvidia/pytorch:24.01-py3
    command: ["torchrun", "--nproc_per_node=8", "train.py", "--backend", "nccl"]
    env:
      - name: NVIDIA_VISIBLE_DEVICES
        value: all
    resources:
      requests: {nvidia.com/gpu: 8}
      limits:
        nvidia.com/gpu: 8
        hugepages-2Mi: 4400Mi
        memory: 400Gi
"""


def indented(text: str, depth: int) -> str:
    return "".join(" " * depth + line for line in text.splitlines(keepends=True))


POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n  runtimeClassName: nvidia\n"
    "  restartPolicy: Never\n" + indented(_POD, 2)
)
JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec:\n  template:\n    spec:\n"
    "      restartPolicy: Never\n" + indented(_POD, 6)
)
MPI_JOB = (
    "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: train}\nspec:\n  slotsPerWorker: 8\n"
    "  mpiReplicaSpecs:\n    Launcher:\n      replicas: 1\n      template:\n        spec:\n          containers:\n"
    "            - name: launcher\n              image: train\n              command: [mpirun, -np, '16', python, train.py]\n"
    "    Worker:\n      replicas: 2\n      template:\n        spec:\n" + indented(_POD, 10)
)
PYTORCH_JOB = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\nspec:\n  nprocPerNode: '8'\n"
    "  pytorchReplicaSpecs:\n    Worker:\n      replicas: 2\n      restartPolicy: OnFailure\n      template:\n        spec:\n"
    + indented(_POD, 10)
)
KINDS = {
    "pod": ("kubernetes", POD),
    "job": ("kubernetes", JOB),
    "mpijob": ("kubeflow.org_mpijobs.yaml", MPI_JOB),
    "pytorchjob": ("kubeflow.org_pytorchjobs.yaml", PYTORCH_JOB),
    "compose": ("compose-spec.json", COMPOSE),
}


def valid(schema: str, file: Path) -> bool:
    """Whether a file is what a schema says; skips where the schema or its package is not there."""
    needed = "kubernetes-validate" if schema == "kubernetes" else "jsonschema"
    python, reason = running.python_that_has(needed, "pyyaml")
    if reason:
        pytest.skip(reason)
    if schema != "kubernetes":
        schema = str(Path(os.environ.get("HPUSHIM_SCHEMAS", "")) / schema)
        if not os.environ.get("HPUSHIM_SCHEMAS") or not Path(schema).is_file():
            pytest.skip(f"HPUSHIM_SCHEMAS holds no {Path(schema).name}")
    words = [python, str(running.PROGRAMS / "manifest.py"), schema, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 or "ValidationError" in done.stderr, done.stderr[-2000:]
    return done.returncode == 0


def written(kind: str, place: Path) -> tuple[Path, Path]:
    """A manifest, and the one that ``migrate --unsafe`` has made of it."""
    place.joinpath("new").mkdir()
    source = place / ("compose.yaml" if kind == "compose" else f"{kind}.yaml")
    source.write_text(KINDS[kind][1])
    return source, running.migrated(place / "new", source, "--unsafe")


@pytest.mark.parametrize("kind", KINDS)
def test_written_manifest_is_valid(kind: str, tmp_path: Path) -> None:
    before, after = written(kind, tmp_path)
    text = after.read_text()
    assert "nvidia.com" not in text and "runtime: nvidia" not in text
    assert "NVIDIA_VISIBLE" not in text and "HABANA_VISIBLE_DEVICES" in text
    assert ("habana.ai/gaudi" in text) is (kind != "compose")
    schema = KINDS[kind][0]
    assert valid(schema, before), "the test's own manifest is wrong"
    assert valid(schema, after)
    broken = yaml.safe_load(text)
    broken["spec" if kind != "compose" else "services"] = [1]
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(broken))
    assert not valid(schema, tmp_path / "broken.yaml"), "this schema refuses nothing"


def test_compose_reads_what_is_written(tmp_path: Path) -> None:
    _, after = written("compose", tmp_path)
    for words in (["docker", "compose"], ["docker-compose"]):
        known = shutil.which(words[0]) and subprocess.run(
            [*words, "version"], capture_output=True, check=False
        )
        if known and known.returncode == 0:
            break
    else:
        pytest.skip("docker compose is not installed")
    done = subprocess.run(
        [*words, "-f", str(after), "config"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert [service["runtime"] for service in services.values()] == ["habana", "habana"]


SBATCH = """#!/bin/bash
#SBATCH --job-name=train
#SBATCH --ntasks=2
#SBATCH --gres={name}:2
export CUDA_VISIBLE_DEVICES=0,1
srun python train.py --device cuda
"""


def test_sbatch_takes_the_migrated_script(tmp_path: Path) -> None:
    if shutil.which("sbatch") is None:
        pytest.skip("Slurm is not installed")
    known = subprocess.run(["sinfo", "-h", "-o", "%G"], capture_output=True, text=True, check=False)
    names = {part.partition(":")[0] for part in known.stdout.replace("\n", ",").split(",")}
    if not {"gpu", "hpu"} <= names:
        pytest.skip("no Slurm cluster answers that has resources called gpu and hpu")
    script = tmp_path / "job.sh"
    script.write_text(SBATCH.format(name="gpu"))
    (tmp_path / "new").mkdir()
    after = running.migrated(tmp_path / "new", script)
    text = after.read_text()
    assert "--device hpu" in text and "export HABANA_VISIBLE_MODULES=0,1" in text
    # The name of the resource is the cluster's; here it is what this cluster says.
    after.write_text(text.replace("--gres=gpu", "--gres=hpu"))
    assert refusal(after) == "" and "Invalid generic resource" in refusal(script, "--gres=card:1")


def refusal(script: Path, *options: str) -> str:
    """What ``sbatch --test-only`` says against a script."""
    words = ["sbatch", "--test-only", *options, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return "" if done.returncode == 0 else done.stderr
