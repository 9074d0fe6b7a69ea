"""Runs tests with another release of torch: ``python tests/versions/run.py --torch 2.6.0 [--python python3.12] [TEST ...]``.

Builds an environment in ``.versions/TORCH-PYTHON`` once, and prints pytest's words and one row of a table. Where pip gives a CUDA build of
torch, it is made into a CPU build: see ``without_cuda.py``. The device is built for each torch: a minute.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import without_cuda

ROOT = Path(__file__).parents[2]
TESTS = (
    "shim",
    "emulator",
    "compare",
    "plan",
    "ledgers",
    "prove",
    "gaudi_machine",
    "rules",
    "engine",
)
NOT_FOR_THE_CPU = re.compile(r"nvidia|triton|pytorch-triton|cuda-")


def environment(torch: str, python: str) -> Path:
    """The Python of an environment with that torch and this checkout, built where it is not there yet."""
    tag = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    folder = ROOT / ".versions" / f"{torch}-{tag}"
    there = folder / "bin" / "python"
    done = folder / ".ready"
    if done.exists():
        return there
    pip = [str(there), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    # Without what it asks for: a CUDA build asks for gigabytes. A treated torch that was left half done is installed anew.
    subprocess.run([*pip, "--no-deps", "--force-reinstall", f"torch=={torch}"], check=True)
    packages = folder / "lib" / f"python{tag}" / "site-packages"
    without_cuda.treat(packages / "torch")
    needs = asked_for(next(packages.glob("torch-*.dist-info")) / "METADATA")
    subprocess.run([*pip, *needs, "-e", f"{ROOT}[dev]"], check=True)
    done.touch()
    return there


def asked_for(metadata: Path) -> list[str]:
    """What torch asks for on a CPU; what else it asks for is taken out of its metadata."""
    kept, needs = [], []
    for line in metadata.read_text(encoding="utf-8").splitlines():
        need = line.removeprefix("Requires-Dist: ")
        if need != line and NOT_FOR_THE_CPU.match(need):
            continue
        kept.append(line)
        if need != line and "extra ==" not in need:
            needs.append(need)
    metadata.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return needs


def counts(said: str) -> str:
    """The figures of pytest's last line, as cells: passed, failed, skipped."""
    last = said.strip().splitlines()[-1] if said.strip() else ""
    found = {
        word: number for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", last)
    }
    failed = int(found.get("failed", 0)) + int(found.get("error", 0))
    return f"{found.get('passed', 0)} | {failed} | {found.get('skipped', 0)}"


def main() -> int:
    """Build, test, and say what came of it; pytest's exit status."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--torch", required=True, help="a release: 2.6.0")
    options.add_argument(
        "--python", default=sys.executable, help="3.10 or newer; default: this one"
    )
    options.add_argument("tests", nargs="*", help="folders, files or options of pytest")
    asked, further = options.parse_known_args()
    python = environment(asked.torch, asked.python)
    tests = [*asked.tests, *further] or [f"tests/{name}" for name in TESTS]
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    run = subprocess.Popen(
        [str(python), "-m", "pytest", "-ra", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "HPUSHIM": "off", "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    said = []
    for line in run.stdout or ():
        print(line, end="", flush=True)
        said.append(line)
    status = run.wait()
    print("\n| torch | Python | passed | failed | skipped |\n|---|---|---|---|---|")
    print(
        f"| {asked.torch} | {python.parents[1].name.rpartition('-')[2]} | {counts(''.join(said))} |"
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
