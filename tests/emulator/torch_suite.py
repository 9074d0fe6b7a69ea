"""The part of torch's own test suite that is written for any device, run on the emulated HPU.

``HPUSHIM_TORCH_TESTS=FOLDER python tests/emulator/torch_suite.py [FILE ...] [--every K] [--seed N] [--json OUT]`` runs every
K-th device-type test of the files (default: ``FILES`` as far as FOLDER has them) on hpu, each file in its own process. FOLDER
is the ``test`` folder of a torch source tree; it is no part of this repository.

A test that does not pass on hpu is run with cpu as its device too. What fails there as well says nothing about the emulator (the file may
be older than the torch that runs it) and is counted apart. Of the rest, ``torch_suite.toml`` names the expected
differences, each with its reason; everything else is a failure, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tomli

WORKER = Path(__file__).with_name("torch_suite_worker.py")
TABLE = Path(__file__).with_name("torch_suite.toml")
FILES = (
    "test_torch.py",
    "test_view_ops.py",
    "test_indexing.py",
    "test_autograd.py",
    "test_nn.py",
    "test_shape_ops.py",
    "test_reductions.py",
    "test_binary_ufuncs.py",
    "test_unary_ufuncs.py",
    "test_tensor_creation_ops.py",
    "test_type_promotion.py",
    "test_sort_and_select.py",
    "test_scatter_gather_ops.py",
    "test_segment_reductions.py",
    "test_linalg.py",
    "test_spectral_ops.py",
    "test_masked.py",
    "test_foreach.py",
    "test_optim.py",
    "test_modules.py",
    "test_dlpack.py",
    "test_ops.py",
    "test_ops_gradients.py",
    "test_ops_fwd_gradients.py",
    "test_serialization.py",
    "test_dataloader.py",
    "test_numpy_interop.py",
    "test_complex.py",
    "test_testing.py",
    "test_type_info.py",
    "test_transformers.py",
    "test_native_mha.py",
    "test_namedtensor.py",
    "test_expanded_weights.py",
    "test_module_init.py",
    "test_python_dispatch.py",
    "test_schema_check.py",
    "test_decomp.py",
    "nn/test_convolution.py",
    "nn/test_pooling.py",
    "nn/test_embedding.py",
    "nn/test_dropout.py",
    "nn/test_multihead_attention.py",
    "nn/test_packed_sequence.py",
    "functorch/test_vmap.py",
    "functorch/test_eager_transforms.py",
)


@dataclass
class FileCounts:
    """What became of the tests of one file. The lists hold ``[test, reason]``."""

    file: str
    tests: int = 0  # device-type tests that the file gives for hpu
    passed: int = 0
    failed: list[list[str]] = field(default_factory=list)
    expected: list[list[str]] = field(default_factory=list)  # differences that the table explains
    cpu_too: list[list[str]] = field(default_factory=list)  # not passing on cpu either
    skipped: dict[str, int] = field(default_factory=dict)
    problem: str = ""  # why the file could not be run
    seconds: float = 0.0


@dataclass(frozen=True)
class Options:
    """How a run is made."""

    folder: Path
    every: int = 1
    seed: int = 0
    limit_s: int = 60
    file_limit_s: int = 3600


def run_on(device: str, file: str, options: Options, only: list[str] | None) -> dict[str, Any]:
    """Run tests of a file on a device; returns the last line of each test by name, and ``""`` for the file itself."""
    lines: dict[str, Any] = {}
    deadline = time.monotonic() + options.file_limit_s
    with tempfile.TemporaryDirectory() as work:
        job, out = Path(work, "job.json"), Path(work, "out.jsonl")
        while time.monotonic() < deadline:
            done = [name for name in lines if name]
            fields = asdict(options) | {"folder": str(options.folder), "file": file, "done": done}
            job.write_text(json.dumps(fields | {"device": device, "only": only, "out": str(out)}))
            out.write_text("")
            errors = run_worker(job, out, options.limit_s, deadline)
            before = len(lines)
            finished = read_lines(out, lines)
            if finished or "import" in lines:
                return lines
            if time.monotonic() > deadline:  # the test that was under way says nothing
                lines = {n: line for n, line in lines.items() if line["outcome"] != "started"}
                break
            for line in lines.values():
                if line["outcome"] == "started":
                    line.update(outcome="crashed", reason=f"the process ended: {errors}")
            if len(lines) == before:
                lines["import"] = {"outcome": "failed", "reason": f"the process ended: {errors}"}
                return lines
    lines["import"] = {"outcome": "failed", "reason": f"stopped after {options.file_limit_s} s"}
    return lines


def read_lines(out: Path, lines: dict[str, Any]) -> bool:
    """Add a worker's lines; returns whether it came to its end."""
    finished = False
    for text in out.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:  # cut short by the end of the process
            continue
        finished |= line["outcome"] == "finished"
        if line["outcome"] != "finished":
            lines[line["test"]] = line
    return finished


def run_worker(job: Path, out: Path, limit_s: int, deadline: float) -> str:
    """One worker, ended when it says nothing for ten times the limit of a test; returns the end of what it printed."""
    errors_path = job.with_name("errors.txt")
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "HPUSHIM_LOG": "quiet", "HPUSHIM": "off"}
    with errors_path.open("wb") as errors:
        worker = subprocess.Popen(
            [sys.executable, str(WORKER), str(job)],
            stdout=errors,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            env=variables,
        )
        size, since = -1, time.monotonic()
        while worker.poll() is None:
            time.sleep(0.2)
            now = time.monotonic()
            if out.stat().st_size != size:
                size, since = out.stat().st_size, now
            if now - since > 10 * limit_s or now > deadline:
                worker.kill()
        status = worker.wait()
    last = errors_path.read_text(errors="replace").strip().splitlines()[-3:]
    return f"status {status}: {' '.join(last)[-300:]}"


def expected_differences() -> list[dict[str, str]]:
    """The table of expected differences: each entry has ``test`` or ``message`` patterns, and a ``reason``."""
    entries: list[dict[str, str]] = tomli.loads(TABLE.read_text())["expected"]
    return entries


def explained(file: str, name: str, reason: str, table: list[dict[str, str]]) -> str:
    """The reason that the table gives for a difference, or nothing."""
    for entry in table:
        if not fnmatch.fnmatch(f"{Path(file).name}::{name}", entry.get("test", "*")):
            continue
        if re.search(entry.get("message", ""), reason):
            return entry["reason"]
    return ""


def run_file(file: str, options: Options, table: list[dict[str, str]]) -> FileCounts:
    """Run a file on hpu, what does not pass there on cpu, and count."""
    begun = time.monotonic()
    counts = FileCounts(file)
    lines = run_on("hpu", file, options, None)
    counts.tests = lines.pop("", {}).get("count", 0)
    counts.problem = lines.pop("import", {}).get("reason", "")
    open_ends: dict[str, str] = {}
    for name, line in lines.items():
        if line["outcome"] == "passed":
            counts.passed += 1
        elif line["outcome"] == "skipped":
            counts.skipped[line["reason"]] = counts.skipped.get(line["reason"], 0) + 1
        else:
            open_ends[name] = f"{line['outcome']}: {line['reason']}"
    reference = run_on("cpu", file, options, list(open_ends)) if open_ends else {}
    if "import" in reference:
        counts.problem += f" on cpu: {reference['import']['reason']}"
    for name, reason in open_ends.items():
        there = reference.get(
            name, {"outcome": "passed", "reason": ""}
        )  # not reached: to be explained
        if there["outcome"] != "passed":
            counts.cpu_too.append([name, f"cpu: {there['outcome']} {there['reason']}"])
        elif why := explained(file, name, reason, table):
            counts.expected.append([name, why])
        else:
            counts.failed.append([name, reason])
    counts.seconds = round(time.monotonic() - begun, 1)
    return counts


def group(reasons: list[str]) -> Counter[str]:
    """Failures by message, without the numbers and names that differ between tests."""
    plain = (re.sub(r"0x[0-9a-f]+|\d+|\[[^]]*\]$", "#", reason)[:150] for reason in reasons)
    return Counter(plain)


def report(files: list[FileCounts]) -> str:
    """Counts per file, and what is behind them, most frequent first."""
    lines = [
        "file                             tests    ran passed failed expected cpu-too skipped  s"
    ]
    for c in files:
        skipped = sum(c.skipped.values())
        ran = c.passed + len(c.failed) + len(c.expected) + len(c.cpu_too) + skipped
        row = [c.tests, ran, c.passed, len(c.failed), len(c.expected), len(c.cpu_too), skipped]
        lines.append(f"{c.file:32} {' '.join(f'{n:6}' for n in row)}  {c.seconds:.0f} {c.problem}")
    for title, found in (
        ("failed (passes on cpu)", group([r for c in files for _, r in c.failed])),
        ("expected differences", Counter(r for c in files for _, r in c.expected)),
        ("does not pass on cpu either", group([r for c in files for _, r in c.cpu_too])),
        ("skipped", group([r for c in files for r in Counter(c.skipped).elements()])),
    ):
        lines.append(f"\n{title}: {sum(found.values())}")
        lines += [f"{n:6}  {reason}" for reason, n in found.most_common(40)]
    return "\n".join(lines)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="torch's device-type tests on the emulated HPU")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="run every K-th test")
    parser.add_argument("--seed", type=int, default=0, help="another sample of the same size")
    parser.add_argument("--limit", type=int, default=60, help="processor seconds a test may take")
    parser.add_argument("--file-limit", type=int, default=3600, help="seconds a file may take")
    parser.add_argument("--json", type=Path, help="write the counts and every failure here")
    return parser.parse_args(arguments)


def main() -> int:
    """Run and print; 1 if a test fails that passes on cpu and that no expected difference explains."""
    given = parse()
    where = os.environ.get("HPUSHIM_TORCH_TESTS")
    if not where or not Path(where).is_dir():
        sys.exit(
            "HPUSHIM_TORCH_TESTS names no folder; expected the test folder of a torch source tree"
        )
    folder = Path(where).resolve()
    options = Options(folder, given.every, given.seed, given.limit, given.file_limit)
    table = expected_differences()
    done: list[FileCounts] = []
    for file in given.files or [f for f in FILES if (folder / f).is_file()]:
        counts = run_file(file, options, table)
        done.append(counts)
        sys.stderr.write(report([counts]).splitlines()[1] + "\n")
        if given.json:
            given.json.write_text(json.dumps([asdict(c) for c in done], indent=1))
    sys.stdout.write("emulated hpu\n" + report(done) + "\n")
    return int(any(c.failed or c.problem for c in done))


if __name__ == "__main__":
    sys.exit(main())
