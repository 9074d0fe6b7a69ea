"""What looking at repositories and rewriting them costs next to ``ast.parse`` of the same files.

    python tests/bench/engine_cost.py FOLDER…       five open repositories, one process
    python tests/bench/engine_cost.py --notebooks FOLDER…

CPU time, that of child processes and of the collector of circles included, the best of some turns; ``parse`` is ``ast.parse`` of the files that are parsed at all. Prints ratios, thousands of lines a
second of everything that was found, the milliseconds that libcst takes for a statement, and where the time goes.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import resource
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpushim.engine import assess, one_file, settle
from hpushim.engine.assess import interesting, wanted_kinds
from hpushim.engine.context import Context
from hpushim.engine.files.discover import discover
from hpushim.engine.files.source import Unreadable, decode
from hpushim.engine.project import analyse, migrate
from hpushim.engine.python import module, rewrite
from hpushim.engine.rules import dispatch, references
from hpushim.matrix import load
from hpushim.model import Target
from hpushim.pycode import index

TURNS = 3
#: Phases by the function that is timed; what one calls inside is taken off its own time.
PHASES: list[tuple[Any, str, str]] = [
    (assess, "interesting", "words of every file"),
    (module.ast, "parse", "ast.parse"),
    (index.Index, "_skeleton", "statements and scopes"),
    (index.Index, "_walk", "expressions with a wanted word"),
    (references, "references", "dotted names"),
    (dispatch._Working, "_call", "rules"),
    (settle, "rewrite", "libcst"),
    (settle, "unproven", "proof"),
]


def best(work: Callable[[], object]) -> float:
    """CPU seconds of one turn, the best of some; a project with a large file is looked at in a child."""
    found = float("inf")
    for _ in range(TURNS):
        gc.collect()
        gc.disable()
        begin = spent()
        work()
        gc.collect()
        found = min(found, spent() - begin)
        gc.enable()
    return found


def spent() -> float:
    """CPU seconds of this process and of its children that have ended."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


def phases(work: Callable[[], object]) -> dict[str, float]:
    """CPU seconds of ``work`` by phase."""
    by_phase: defaultdict[str, float] = defaultdict(float)
    stack: list[float] = []

    def timed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            stack.append(0.0)
            begin = time.process_time()
            try:
                return function(*args, **options)
            finally:
                whole = time.process_time() - begin
                by_phase[name] += whole - stack.pop()
                if stack:
                    stack[-1] += whole

        return call

    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in PHASES]
    try:
        for owner, name, shown in PHASES:
            setattr(owner, name, timed(getattr(owner, name), shown))
        gc.disable()
        begin = time.process_time()
        work()
        by_phase["the rest"] = time.process_time() - begin - sum(by_phase.values())
    finally:
        gc.enable()
        for owner, name, function in kept:
            setattr(owner, name, function)
    return dict(by_phase)


def texts(folder: Path, kind: str) -> tuple[list[str], int]:
    """The files of a kind that are looked at, and the lines of all that were found."""
    found = discover([folder], folder, wanted_kinds())
    kept: list[str] = []
    lines = 0
    for file in found.files:
        data = file.path.read_bytes()
        lines += data.count(b"\n")
        if file.kind == kind and interesting(data, file.kind, file.shown):
            try:
                text = decode(data, python=kind == "python").text
                if kind == "python":
                    ast.parse(text)
            except (Unreadable, SyntaxError, ValueError):
                continue
            kept.append(text)
    return kept, lines


def repositories(folders: list[Path]) -> None:
    matrix = load()
    context = Context(Target(), matrix)
    total = defaultdict(float)
    for folder in folders:
        kept, lines = texts(folder, "python")
        parse = best(lambda kept=kept: [ast.parse(text) for text in kept])
        check = best(
            lambda kept=kept: [one_file.examine(t, "python", "a.py", context) for t in kept]
        )
        before = rewrite.Count.statements, rewrite.Count.seconds
        change = best(
            lambda kept=kept: [one_file.settle(t, "python", "a.py", context) for t in kept]
        )
        statements = (rewrite.Count.statements - before[0]) / TURNS
        seconds = (rewrite.Count.seconds - before[1]) / TURNS
        whole = best(lambda folder=folder: analyse([folder], Target(), matrix=matrix, jobs=1))
        both = best(
            lambda folder=folder: migrate([folder], Target(), matrix=matrix, write=False, jobs=1)
        )
        ruff = _ruff(folder)
        print(
            f"{folder.name}: {len(kept)} files parsed, {lines / 1000:.0f} kLOC; check {check / parse:.2f} x parse, "
            f"migrate {change / parse:.2f} x = {(change - 1.5e-3 * statements) / parse:.2f} x + 1.5 ms a statement; "
            f"{statements:.0f} statements, {1e3 * seconds / max(statements, 1):.2f} ms each; "
            f"whole: check {lines / whole / 1000:.0f}, migrate {lines / both / 1000:.0f} kLOC/s"
            + (f"; ruff --select ALL {lines / ruff / 1000:.0f} kLOC/s" if ruff else "")
        )
        for name, value in (
            ("parse", parse),
            ("check", check),
            ("change", change),
            ("n", statements),
            ("lines", lines),
            ("whole", whole),
            ("ruff", ruff),
        ):
            total[name] += value
    check, change = total["check"] / total["parse"], total["change"] - 1.5e-3 * total["n"]
    print(
        f"all: check {check:.2f} x parse, migrate {change / total['parse']:.2f} x + 1.5 ms a statement; "
        f"whole: check {total['lines'] / total['whole'] / 1000:.0f} kLOC/s"
        + (f", ruff {total['lines'] / total['ruff'] / 1000:.0f}" if total["ruff"] else "")
    )
    every = [text for folder in folders for text in texts(folder, "python")[0]]
    for title, work in (("check", one_file.examine), ("migrate", one_file.settle)):
        by_phase = phases(lambda work=work: [work(t, "python", "a.py", context) for t in every])
        whole = sum(by_phase.values())
        parts = sorted(by_phase.items(), key=lambda item: -item[1])
        print(f"{title}: " + ", ".join(f"{name} {100 * s / whole:.0f} %" for name, s in parts))


def _ruff(folder: Path) -> float:
    """CPU seconds of ruff with all rules and no cache, a process of its own; 0 where it is not installed."""
    tool = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if tool is None:
        return 0.0
    begin = spent()
    command = [
        tool,
        "check",
        "--isolated",
        "--select",
        "ALL",
        "--no-cache",
        "--quiet",
        "--exit-zero",
        str(folder),
    ]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return spent() - begin


def notebooks(folders: list[Path]) -> None:
    """The ten largest notebooks against reading them as JSON, both from the bytes of the files."""
    every = sorted(
        (p for folder in folders for p in folder.rglob("*.ipynb")), key=lambda p: -p.stat().st_size
    )
    kept = [path.read_bytes() for path in every[:10]]
    context = Context(Target(), load())
    read = best(lambda: [json.loads(data) for data in kept])

    def examined(data: bytes) -> None:
        source = decode(data, python=False)
        one_file.examine(source.text, "notebook", "a.ipynb", context, source.canonical)

    check = best(lambda: [examined(data) for data in kept])
    print(
        f"{len(kept)} notebooks, {sum(map(len, kept)) / 1e6:.1f} MB: check {check / read:.2f} x json.loads"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notebooks", action="store_true")
    parser.add_argument("folders", nargs="+", type=Path)
    given = parser.parse_args()
    (notebooks if given.notebooks else repositories)(given.folders)


if __name__ == "__main__":
    main()
