"""``make demo``: reports on a CUDA project, migrates a copy, trains original and copy on the emulated HPU.

    python tests/projects/demo.py [--iterations 60] [--at .demo]

Exit code 0 when every loss, every operator's device and every mark_step is as it must be, else 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import running
from running import Run, Way

HERE = Path(__file__).resolve().parent
PROJECT = HERE / "char_gpt" / "before"
ACCUMULATION = 2
FP32_LIMIT, BF16_LIMIT, DEVICE_SHARE = 1e-4, 0.05, 0.99


@dataclass
class Training:
    """One line of the table: which copy, which way, which precision, and what came out."""

    title: str
    way: Way
    copy: str
    dtype: str
    device: str = "cuda"
    run: Run | None = None
    metrics: dict[str, Any] | None = None


def trainings() -> list[Training]:
    """The runs of the demo; the first is the reference."""
    lines = [Training("original, plain CPU", "plain", "original", "float32", "cpu")]
    for dtype in ("float32", "bfloat16", "float16"):
        lines.append(Training("original under hpushim run", "shim", "original", dtype))
        lines.append(Training("migrated copy", "native", "migrated", dtype))
    lines.append(Training("migrated copy, --device cpu", "native", "migrated", "float32", "cpu"))
    return lines


def train(line: Training, at: Path, iterations: int) -> Training:
    """Runs one training and reads its metrics."""
    name = f"{line.copy}-{line.way}-{line.device}-{line.dtype}"
    metrics = at / f"{name}.json"
    device = "hpu" if line.way == "native" and line.device == "cuda" else line.device
    words = (
        f"train.py --config config/verses.yaml --max_iters {iterations} --eval_interval {iterations} "
        f"--dtype {line.dtype} --device {device} --out_dir {at / name} --metrics {metrics}"
    ).split()
    metrics.unlink(missing_ok=True)
    books = at / f"{name}.ledger" if line.way != "plain" else None
    line.run = running.run(line.way, words, at / line.copy, books)
    (at / f"{name}.log").write_text(f"$ {line.run.command}\n{line.run.output}")
    line.metrics = json.loads(metrics.read_text()) if metrics.is_file() else None
    return line


def assess(line: Training, reference: Training, iterations: int) -> list[str]:
    """What is wrong with this line, in words; empty when it is as it must be."""
    assert line.run is not None
    if not line.run.ok or line.metrics is None:
        return [f"exit code {line.run.rc}:\n{line.run.tail()}"]
    if reference.metrics is None:
        return ["no reference to compare with"]
    wrong = []
    distance = running.relative(line.metrics["final_loss"], reference.metrics["final_loss"])
    on_cpu = line.device == "cpu"
    limit = 0.0 if on_cpu else FP32_LIMIT if line.dtype == "float32" else BF16_LIMIT
    if distance > limit:
        wrong.append(f"final loss differs by {distance:.2e}, at most {limit:.0e} was expected")
    if on_cpu:
        return wrong
    if line.run.parameters() != {"hpu"}:
        wrong.append(f"the optimizer stepped parameters on {line.run.parameters()}, not on hpu")
    if line.run.share() < DEVICE_SHARE:
        wrong.append(f"{line.run.share():.1%} of the compute operators ran on hpu")
    expected = iterations * (ACCUMULATION + 1)
    if line.way == "native" and line.run.total("mark_steps") != expected:
        wrong.append(f"{line.run.total('mark_steps')} mark_steps, {expected} expected")
    wrong += [f"unhandled: {call}" for call in line.run.unhandled()]
    return wrong


def row(line: Training, reference: Training, wrong: list[str]) -> str:
    """The line of the table."""
    assert line.run is not None
    cells = [f"{line.title:28}", f"{line.dtype:9}"]
    if line.metrics and reference.metrics:
        loss, base = line.metrics["final_loss"], reference.metrics["final_loss"]
        cells += [f"{loss:8.5f}", f"{running.relative(loss, base):9.1e}"]
    else:
        cells += [f"{'-':>8}", f"{'-':>9}"]
    if line.device == "cpu":
        cells += [f"{'-':>7}", f"{'-':>10}"]
    else:
        cells += [f"{line.run.share():7.1%}", f"{line.run.total('mark_steps'):10}"]
    return "  ".join([*cells, f"{line.run.seconds:6.1f}", "ok" if not wrong else "FAILED"])


def prepare(at: Path) -> list[str]:
    """Copies, reports, migrates; prints what hpushim says; returns what went wrong."""
    original = running.fresh_copy(PROJECT, at / "original")
    migrated = running.fresh_copy(PROJECT, at / "migrated")
    running.git_init(migrated)
    wrong = []
    print("== hpushim report: the project as it is\n")
    report = running.hpushim("report", str(original), cwd=at)
    print(report.output)
    if report.rc not in (0, 1):
        wrong.append(f"report: exit code {report.rc}")
    print("== hpushim migrate: a copy of it\n")
    migrate = running.hpushim("migrate", str(migrated), cwd=at)
    print(migrate.tail(4))
    if migrate.rc not in (0, 1):
        wrong.append(f"migrate: exit code {migrate.rc}")
    diff = running.git_diff(migrated)
    print("the diff:", diff or "nothing changed")
    if not diff:
        wrong.append("migrate changed nothing")
    return wrong


def main() -> int:
    """Runs the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--at", type=Path, default=HERE.parents[1] / ".demo", help="working folder")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at the same time")
    options = parser.parse_args()
    at = options.at.resolve()
    at.mkdir(parents=True, exist_ok=True)

    failures = prepare(at)
    lines = trainings()
    print(f"\n== training, {options.iterations} iterations each; every hpu here is emulated")
    print(
        "   (the first run compiles the emulated device, once, which takes about a minute)\n",
        flush=True,
    )
    built = train(lines[1], at, options.iterations)  # alone: it builds the device
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda line: line is built or train(line, at, options.iterations), lines))

    head = f"{'run':28}  {'precision':9}  {'loss':>8}  {'from CPU':>9}  {'on hpu':>7}  {'mark_steps':>10}  {'sec':>6}"
    print(head + "\n" + "-" * (len(head) + 8))
    for line in lines:
        wrong = assess(line, lines[0], options.iterations)
        print(row(line, lines[0], wrong))
        failures += [f"{line.title}, {line.dtype}: {text}" for text in wrong]
    print(
        "\n'on hpu': share of compute operators on the emulated device. float16 becomes bfloat16 on HPU."
    )
    print(f"logs and ledgers: {at}")
    for failure in failures:
        print(f"FAILED  {failure}")
    verdict = "as expected" if not failures else f"{len(failures)} failures"
    print(f"\nverdict (emulated, not measured on a Gaudi): {verdict}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
