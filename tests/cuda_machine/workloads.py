"""Real training scripts on a CUDA machine: each as it stands beside its dual and its agnostic copy, step by step and bit for bit.

    python tests/cuda_machine/workloads.py pack FOLDER [NAME …]     # where the repositories and data are: see tests/projects/real.py
    python tests/cuda_machine/workloads.py run FOLDER [--jobs 4]    # on a machine whose torch has a working CUDA device

``pack`` copies the workloads of real.toml with their data, so that a folder is all that the CUDA machine needs. ``run`` migrates there
and compares as ``hpushim prove`` does on a CUDA device. It also runs each script once under ``hpushim run``, which has nothing to
do on such a machine, and compares the losses. Prints a table; exit code 1 where a copy differs, 2 where nothing could be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hpushim.model import Target
from hpushim.prove import cuda
from hpushim.prove import trial as proof
from hpushim.prove.covered import Coverage
from hpushim.prove.words import Command

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "projects"))
from recipes import Place, workloads
from running import NUMBER
from trial import Trial

Style = Literal["dual", "agnostic"]
Verdict = Literal["equal", "equal within", "different", "not compared"]
STYLES: tuple[Style, ...] = ("dual", "agnostic")
LEFT_ALONE = "hpushim run"


@dataclass(frozen=True)
class Row:
    """What became of one way of running a workload."""

    name: str
    way: str
    verdict: Verdict
    what: str


def pack(folder: Path, names: list[str]) -> int:
    """Copies originals and data; returns how many."""
    place = Place.from_environment()
    if place is None:
        raise SystemExit("set HPUSHIM_CORPORA and HPUSHIM_CORPORA_DATA")
    packed = 0
    for work in workloads():
        if not any(re.fullmatch(name, work.name) for name in names or [".*"]):
            continue
        trial = Trial(work, place, folder)
        why = trial.lacking() or work.refused or ("needs data by its path" if "{data}" in work.words else "")  # fmt: skip
        if why or work.devices > 1:
            print(f"{work.name}: left out: {why or 'several devices'}")
            continue
        trial.add_data(trial.sources("original"))
        env = {name: value for name, value in trial.environment().items() if str(place.data) not in value}  # fmt: skip
        job = {"cwd": work.cwd, "words": f"{work.words} {work.hpu}".split(), "env": env, "loss": work.loss}  # fmt: skip
        (trial.home / "job.json").write_text(json.dumps(job))
        packed += 1
    return packed


def compared(home: Path, style: Style, look: cuda.Look = cuda.look) -> Row:
    """The original and its copy in one style on the CUDA device, compared step by step."""
    job = json.loads((home / "job.json").read_text())
    os.environ.update(_variables(job))
    script, *args = job["words"]
    root = home / "original"
    os.chdir(root / job["cwd"])  # a path of the workload's variables is relative to it
    request = proof.Request(
        command=Command(before=(), script=script, args=tuple(args)), target=Target(style=style), root=root, cwd=root / job["cwd"], no_cpu=True, look=look
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        trial = proof.Trial(request, Path(os.path.realpath(scratch)), lambda line: None)
        migrated = trial.copy("native")
        report = trial.migrate(migrated)
        changed = len(trial.changes(report, migrated))
        outcome = proof.Outcome("equal", "", migrated, [], [], Coverage(), None, None, report)
        outcome = proof._on_cuda(trial, outcome)
    pair = outcome.comparisons[0] if outcome.comparisons else None
    if pair is None or outcome.cuda.startswith("not compared"):
        return Row(home.name, style, "not compared", outcome.cuda)
    steps = outcome.elsewhere[0].record.steps
    how = "; ".join([f"{steps} steps, {changed} places changed", *pair.notes, outcome.reason])
    verdict: Verdict = "different" if pair.difference else ("equal" if pair.exact else "equal within")  # fmt: skip
    return Row(home.name, style, verdict, how.rstrip("; "))


def _variables(job: dict[str, Any]) -> dict[str, str]:
    """The workload's own variables, with this process's path behind its own."""
    env: dict[str, str] = job["env"]
    paths = [env.get("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def left_alone(home: Path) -> Row:
    """The original by Python and by ``hpushim run``, which finds a working CUDA device and changes nothing."""
    job = json.loads((home / "job.json").read_text())
    found = cuda.look()
    if not found.name:
        return Row(home.name, LEFT_ALONE, "not compared", found.why)
    losses = []
    for before in ([], ["-m", "hpushim", "run"]):
        env = {name: value for name, value in cuda.environment().items() if name != "HPUSHIM"}
        done = subprocess.run(
            [found.python, *before, *job["words"]], cwd=home / "original" / job["cwd"], env={**env, **_variables(job)}, capture_output=True, text=True, check=False, timeout=300
        )  # fmt: skip
        if done.returncode:
            return Row(home.name, LEFT_ALONE, "not compared" if not before else "different", done.stderr[-300:])  # fmt: skip
        losses.append(re.findall(job["loss"].replace("<n>", f"({NUMBER})"), done.stdout + done.stderr))  # fmt: skip
        said = re.findall(r"^hpushim.*", done.stdout + done.stderr, re.MULTILINE)
    return Row(home.name, LEFT_ALONE, "equal" if losses[0] == losses[1] else "different", f"{len(losses[0])} losses; hpushim printed {said}")  # fmt: skip


def _one(folder: Path, name: str, way: str) -> Row:
    """In a process of its own, since the variables of a workload are those of the process."""
    words = [sys.executable, __file__, "one", str(folder / name), "--way", way]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return Row(name, way, "not compared", done.stderr[-400:])
    return Row(**json.loads(lines[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["pack", "run", "one"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--way", default="")
    given: Any = parser.parse_args()
    folder = given.folder.resolve()
    if given.what == "pack":
        folder.mkdir(parents=True, exist_ok=True)
        print(f"{pack(folder, given.names)} workloads packed")
        return 0
    if given.what == "one":
        row = left_alone(folder) if given.way == LEFT_ALONE else compared(folder, given.way)
        print(json.dumps(vars(row)))
        return 0
    jobs = [(home.parent.name, way) for home in sorted(folder.glob("*/job.json")) for way in (LEFT_ALONE, *STYLES)]  # fmt: skip
    seen = set()
    with ThreadPoolExecutor(given.jobs) as pool:
        for row in pool.map(lambda job: _one(folder, *job), jobs):
            print(f"{row.name} | {row.way} | {row.verdict} | {row.what}", flush=True)
            seen.add(row.verdict)
    return 1 if "different" in seen else 0 if seen & {"equal", "equal within"} else 2


if __name__ == "__main__":
    raise SystemExit(main())
