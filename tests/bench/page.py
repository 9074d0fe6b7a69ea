"""All benchmarks in one run: a page with its chart, and the figures as JSON.

    python tests/bench/page.py -o bench                           # on hpushim's own source
    python tests/bench/page.py -o bench --tree FOLDER…            # on other projects

CPU time throughout, of child processes too, so that other work on the machine matters less; what is compared was measured in the same
run, on the same files. Tools that are not installed, beside Python or on the PATH (pyupgrade, TorchFix), are left out, and the page says so.
"""

from __future__ import annotations

import argparse
import ast
import html
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
TURNS = 3
#: What is measured may keep its byte code and what goes with it, as it does where it is installed.
MEASURED = {"HPUSHIM": "off", "HPUSHIM_LOG": "quiet", "PYTHONDONTWRITEBYTECODE": ""}
#: A title of bars, what their length is, and the bars: what, and how much.
Group = tuple[str, str, list[tuple[str, float]]]


def spent(*command: str | Path, **env: str) -> tuple[float, str]:
    """The least CPU seconds of some turns of a process and its children, and what it printed."""
    least, output = float("inf"), ""
    for _ in range(TURNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **MEASURED, **env},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        least, output = min(least, took), done.stdout
    return least, output


NO_OP = """
import sys, pathlib, libcst
class Nothing(libcst.CSTTransformer): pass
for name in sys.stdin.read().split("\\0"):
    text = pathlib.Path(name).read_text()
    assert libcst.parse_module(text).visit(Nothing()).code == text
"""
PARSE = """
import sys, pathlib, ast
for name in sys.stdin.read().split("\\0"):
    ast.parse(pathlib.Path(name).read_text())
"""


def _on_list(code: str, files: Sequence[Path]) -> float:
    """CPU seconds of a small program that reads the names of files."""
    with tempfile.TemporaryDirectory() as folder:
        names, program = Path(folder, "names"), Path(folder, "program.py")
        names.write_text("\0".join(map(str, files)))
        program.write_text(f"import sys\nsys.stdin = open({str(names)!r})\n{code}")
        return spent(sys.executable, program)[0]


def processes(trees: Sequence[Path]) -> Iterator[Group]:
    """Whole processes over the same files."""
    files = [path for tree in trees for path in sorted(tree.rglob("*.py")) if _parses(path)]
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    command = [sys.executable, "-m", "hpushim", "check", *map(str, trees), "--exit-zero"]
    seconds = {"ast.parse of every file": _on_list(PARSE, files)}
    with tempfile.TemporaryDirectory() as folder:
        cached = {"HPUSHIM_CACHE_DIR": folder}
        seconds["hpushim check, first run"] = spent(*command, "--no-cache", "--jobs", "1")[0]
        spent(*command, "--jobs", "1", **cached)
        seconds["hpushim check, again"] = spent(*command, "--jobs", "1", **cached)[0]
    seconds["libcst, a codemod that changes nothing"] = _on_list(NO_OP, files)
    where = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    for title, tool, words in (
        ("ruff, all rules", "ruff", ("check", "--isolated", "--select", "ALL", "--no-cache", "--quiet")),
        ("pyupgrade", "pyupgrade", ()),
        ("TorchFix", "torchfix", ("--show-stderr",)),
    ):  # fmt: skip
        found = shutil.which(tool, path=where)
        if found and tool == "pyupgrade":
            with tempfile.TemporaryDirectory() as folder:
                copies = [
                    Path(shutil.copy(path, f"{folder}/{n}.py")) for n, path in enumerate(files)
                ]
                seconds[title] = spent(found, "--exit-zero-even-if-changed", *copies)[0]
        elif found:
            seconds[title] = spent(found, *words, *trees)[0]
    yield (
        f"Whole processes over {len(files)} files, {lines / 1000:.0f} thousand lines",
        "thousand lines a CPU second",
        [(title, lines / 1000 / value) for title, value in seconds.items()],
    )
    one = ROOT / "docs/example/train.py"
    started = [(f"hpushim {word}", spent(sys.executable, "-m", "hpushim", *words)[0]) for word, words in (
        ("--help", ["--help"]), ("check train.py", ["check", one, "--no-cache"]), ("report train.py", ["report", one, "--no-cache"]))]  # fmt: skip
    yield "Start: a script of some lines", "CPU seconds", started


def _parses(path: Path) -> bool:
    try:
        ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, OSError):
        return False
    return True


MODE = """
import json, os, statistics, sys, time
os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, sys.argv[1])
import hpushim.emulator
hpushim.emulator.enable()
import torch, shim_cost
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
step = shim_cost.gpt(torch)
pairs = []
for _ in range(int(sys.argv[2]) + 2):
    bare = shim_cost.cpu(step, 2)
    with Mode():
        pairs.append(shim_cost.cpu(step, 2) / bare)
print(json.dumps(statistics.median(pairs[2:])))
"""


def at_run_time(pairs: int) -> Iterator[Group]:
    """The shim and the emulated device, beside none; nothing where there is no torch."""
    python = sys.executable
    found = _said(python, HERE / "shim_cost.py", str(pairs), OMP_NUM_THREADS="1")
    if not found:
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "mode.py")
        program.write_text(MODE)
        mode = _said(python, program, HERE, str(pairs), OMP_NUM_THREADS="1")
    calls = json.loads(found.splitlines()[-1])
    shown = ("GPT step", "a + a", "torch.relu(a)", "torch.empty(1, device=)", "host.to(text)", "host.cuda()")  # fmt: skip
    bars = [(name, calls[name]["ratio"]) for name in shown]
    if mode:
        bars.insert(1, ("GPT step under an empty TorchFunctionMode", json.loads(mode)))
    yield "The shim, beside torch without it", "times", bars
    said = _said(python, HERE / "emulator_cost.py", str(pairs))
    yield "The emulated HPU, beside the CPU", "times", [
        (line.partition(":")[0], float(line.partition(": ")[2].split()[0])) for line in said.splitlines() if " times the CPU" in line
    ]  # fmt: skip


def _said(*command: str | Path, **env: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False,
        env={**os.environ, **MEASURED, **env},
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else ""


def memory(trees: Sequence[Path], steps: int) -> Iterator[Group]:
    """The most that processes need, and whether a run on the emulated HPU needs more the longer it goes on."""
    files = [str(path) for tree in trees for path in sorted(tree.rglob("*.py")) if _parses(path)]
    check = [sys.executable, "-m", "hpushim", "check", "--no-cache", "--jobs", "1", "--exit-zero"]
    one = ROOT / "docs/example/train.py"
    trees_kept = "import ast, sys\nkept = [ast.parse(open(name).read()) for name in sys.argv[1:]]"
    yield f"Memory of processes, {len(files)} files", "MiB at most", [
        (title, _peak(command))
        for title, command in (
            ("python", [sys.executable, "-c", "pass"]), ("hpushim check, a script of some lines", [*check, str(one)]),
            ("hpushim check, all files", [*check, *map(str, trees)]), ("the trees of all files at once", [sys.executable, "-c", trees_kept, *files]),
        )
    ]  # fmt: skip
    said = _said(sys.executable, HERE / "emulator_cost.py", "--memory", str(steps))
    found = re.findall(r"step (\d+): (\d+) bytes .* peak (\d+) MiB", said)
    if found:
        yield f"Memory over {steps:,} steps on the emulated HPU: the process", "MiB at most", [
            (f"after {int(step):,} steps", float(peak)) for step, _, peak in found[1:]
        ]  # fmt: skip
        yield f"Memory over {steps:,} steps on the emulated HPU: the device", "bytes in use", [
            (f"after {int(step):,} steps", float(used)) for step, used, _ in found[1:]
        ]  # fmt: skip


def _peak(command: Sequence[str]) -> float:
    """The most memory of a process and its children, in MiB."""
    code = "import resource, subprocess, sys\nsubprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\nprint(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"  # fmt: skip
    return float(_said(sys.executable, "-c", code, *command) or 0) / 1024


def growth(sizes: Sequence[int]) -> Iterator[Group]:
    """The exponent by which the time of each case grows with its size: 1 is in proportion."""
    said = _said(sys.executable, HERE / "growth.py", "--sizes", *map(str, sizes))
    bars = []
    for line in said.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        try:
            bars.append((cells[0], float(cells[-2])))  # the last one is of memory
        except (ValueError, IndexError):
            continue
    if bars:
        yield f"Growth from {sizes[0]:,} to {sizes[-1]:,}", "exponent of the time", bars


def page(groups: Sequence[Group]) -> str:
    """The chart and the figures, as one page of HTML that needs nothing else."""
    body = "".join(map(_chart, groups))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>hpushim: benchmarks</title>"
        "<style>body{font:16px system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}svg{width:100%;height:auto}"
        "text{font:13px system-ui;fill:currentColor}rect{fill:#2b6cb0}@media(prefers-color-scheme:dark){body{background:#111;color:#eee}}</style>"
        f"<h1>Benchmarks</h1><p>{html.escape(_where())}</p>{body}"
        "<p>CPU time; what is compared was measured in one run over the same files. Nothing here is the speed of a Gaudi.</p></html>\n"
    )


def _where() -> str:
    from hpushim import __version__

    return f"hpushim {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f} when this began."


def _chart(group: Group) -> str:
    title, unit, bars = group
    most = max((value for _, value in bars), default=1) or 1
    rows = "".join(
        f'<text x="350" y="{20 + 24 * n}" text-anchor="end">{html.escape(name)}</text>'
        f'<rect x="360" y="{8 + 24 * n}" width="{max(360 * value / most, 1):.1f}" height="16"/>'
        f'<text x="{366 + 360 * value / most:.1f}" y="{20 + 24 * n}">{value:.3g}</text>'
        for n, (name, value) in enumerate(bars)
    )
    return f'<h2>{html.escape(title)}</h2><p>{html.escape(unit)}</p><svg viewBox="0 0 800 {24 * len(bars) + 10}" role="img" aria-label="{html.escape(title)}">{rows}</svg>'


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", "-o", type=Path, default=Path("bench"))
    parser.add_argument(
        "--tree", type=Path, nargs="+", default=[ROOT / "hpushim", ROOT / "codemods"]
    )
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument(
        "--steps", type=int, default=20_000, help="of the run whose memory is shown"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--only", nargs="*", help="processes, run, memory, growth; all without it")
    options = parser.parse_args()
    parts: dict[str, Callable[[], Iterator[Group]]] = {
        "processes": lambda: processes(options.tree),
        "run": lambda: at_run_time(options.pairs),
        "memory": lambda: memory(options.tree, options.steps),
        "growth": lambda: growth(options.sizes),
    }
    groups: list[Group] = []
    options.output.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        if options.only and name not in options.only:
            continue
        for group in part():
            groups.append(group)
            print(f"{group[0]} ({group[1]})", *(f"  {what:<55} {value:.3g}" for what, value in group[2]), sep="\n", flush=True)  # fmt: skip
    (options.output / "index.html").write_text(page(groups), encoding="utf-8")
    (options.output / "bench.json").write_text(json.dumps(groups, indent=1), encoding="utf-8")
    print(options.output / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
