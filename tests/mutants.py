"""Mutation testing: one small change of the sources at a time, and whether a related test fails.

``python tests/mutants.py [--count 100] [--seed 1] [--changed COMMIT] [--minutes 60]`` works on a copy of the tracked files, asks the
tests that ``related.py`` names, and lists the survivors. Those of ``mutants.toml`` change nothing that anybody could notice.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import related
import tomli

ROOT = related.ROOT
PARTS = ("codemods", *(f"hpushim/{p}" for p in ("engine", "shim", "prove", "report", "emulator", "pycode", "compare", "ledgers", "matrix")))  # fmt: skip
_SWAPS: dict[type, str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip


class Mutant(NamedTuple):
    """One change: file, line, what is written there and what instead, as bytes from ``start`` to ``end``."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before!r} -> {self.after!r}"


def mutants(file: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its tree."""
    data = (ROOT / file).read_bytes()
    lines = [0]
    for line in data.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in ast.walk(ast.parse(data)):
        after = _instead(node)
        if after is None:
            continue
        assert isinstance(node, (ast.expr, ast.stmt))
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = data[start:end].decode()
        if "\n" not in before:
            yield Mutant(file, node.lineno, start, end, before, after)


def _instead(node: ast.AST) -> str | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        return f"({left} {_SWAPS[type(node.ops[0])]} {right})"
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        return f"({word.join(f'({ast.unparse(value)})' for value in node.values)})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"bool({ast.unparse(node.operand)})"
    if isinstance(node, ast.Return) and node.value is not None:
        nothing = isinstance(node.value, ast.Constant) and node.value.value is None
        return None if nothing else "return None"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return "pass"
    if isinstance(node, (ast.Continue, ast.Break)):
        return "break" if isinstance(node, ast.Continue) else "continue"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return str(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return str(node.value + 1)
    return None


def chosen(files: list[str], count: int, seed: int, lines: dict[str, set[int]]) -> list[Mutant]:
    """Some of all mutants, from each part alike; with ``lines`` those of these lines alone."""
    picked = random.Random(seed)
    by_part = [[f for f in files if f.startswith(f"{part}/")] for part in PARTS]
    pools = [[m for f in part for m in mutants(f) if not lines or m.line in lines.get(f, ())] for part in by_part]  # fmt: skip
    pools = [picked.sample(pool, len(pool)) for pool in pools if pool]
    found: list[Mutant] = []
    while len(found) < count and any(pools):
        found += [pool.pop() for pool in pools if pool]
    return found[:count]


def changed_lines(commit: str) -> dict[str, set[int]]:
    """The lines of each file that differ from a commit."""
    words = ["git", "diff", "-U0", commit, "--", "codemods", "hpushim"]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, set[int]] = {}
    file = ""
    for line in said.splitlines():
        if line.startswith("+++ b/"):
            file = line[6:]
        elif place := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(place[1])
            found.setdefault(file, set()).update(range(first, first + int(place[2] or 1)))
    return found


def environment(folder: Path, files: list[str]) -> tuple[Path, str]:
    """A copy of the files, and a Python that imports hpushim from it and all else from where this one does."""
    tree = folder / "tree"
    for file in files:
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, tree / file)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = folder / "venv" / ours.relative_to(sys.prefix)
    for file in (*ours.glob("*.pth"), *ours.glob("__editable__*.py")):
        (theirs / file.name).write_text(file.read_text().replace(str(ROOT), str(tree)))
    (theirs / "zz_others.pth").write_text(f"{ours}\n")
    return tree, str(folder / "venv" / "bin" / "python")


class Asked:
    """The tests of one tree, run by forks of a Python that holds torch; they read the sources anew each time."""

    def __init__(self, tree: Path, python: str, seconds: float) -> None:
        self.tree, self.seconds = tree, seconds
        code = "import warm; print(warm.python(), flush=True); input()"
        env = {**os.environ, "HPUSHIM": "off", "PYTHONPATH": str(tree / "tests")}
        self._server = subprocess.Popen([python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)  # fmt: skip
        assert self._server.stdout
        self._python = self._server.stdout.readline().strip()

    def end(self) -> None:
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait()

    def failed(self, words: list[str], ends: float) -> tuple[str, bool]:
        """The test that failed, or was not through in time; empty if none. And whether any ran."""
        command = [self._python, "-m", "pytest", "-x", "-vv", "-p", "no:cacheprovider", "-m", "not slow and not bench", *words]  # fmt: skip
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        try:
            left = max(1, ends - time.monotonic())
            out = subprocess.run(command, cwd=self.tree, env={**env, "HPUSHIM": "off"}, capture_output=True, timeout=left, check=False).stdout  # fmt: skip
        except subprocess.TimeoutExpired as late:
            out = late.stdout or b""
        lines = out.decode(errors="replace").splitlines()
        tests = [line for line in lines if re.match(r"tests/\S+::", line)]
        for line in tests:
            if not re.search(r" (PASSED|SKIPPED|XFAIL|XPASS)\b", line):
                return re.split(r" (?:FAILED|ERROR)?\s*(?:\[ *\d+%\])?$", line)[0].strip(), True
        broken = [line.split()[1] for line in lines if line.startswith("ERROR ")]
        return (broken[0] if broken else ""), bool(tests)

    def outcome(self, mutant: Mutant) -> tuple[str, str]:
        """``killed`` and by which test, ``survived``, ``no test``, or ``undecided`` where the time did not suffice."""
        path = self.tree / mutant.file
        data = path.read_bytes()
        changed = data[: mutant.start] + mutant.after.encode() + data[mutant.end :]
        ends, ran, left_out = time.monotonic() + self.seconds, False, []
        room = "rules" if mutant.file.startswith("codemods/") else Path(mutant.file).parts[1]
        commands = [c for c in related.commands([mutant.file], always=False) if c]
        commands += [[f"tests/{room}"]] if [f"tests/{room}"] not in commands else []
        try:
            while commands:
                path.write_bytes(changed)
                words = [*commands[0], *(f"--deselect={test}" for test in left_out)]
                test, some = self.failed(words, ends)
                ran = ran or some
                if not test:
                    del commands[0]
                    continue
                late = time.monotonic() > ends
                if late:  # one test that hangs, or one of many
                    test, _ = self.failed([test], time.monotonic() + self.seconds / 2)
                path.write_bytes(data)
                if test and not self.failed([test], time.monotonic() + self.seconds)[0]:
                    return "killed", test
                if late:
                    return "undecided", ""
                left_out.append(test)
        finally:
            path.write_bytes(data)
        return ("survived" if ran else "no test"), ""


def main() -> int:
    """Prints each mutant with its outcome, then the survivors; 1 where there is one that is not known to be equivalent."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--count", type=int, default=100)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--minutes", type=float, default=240)
    asked.add_argument("--seconds", type=float, default=40, help="for each mutant")
    asked.add_argument("--changed", metavar="COMMIT")
    options = asked.parse_args()
    said = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [file for file in said.stdout.splitlines() if (ROOT / file).is_file()]
    lines = changed_lines(options.changed) if options.changed else {}
    python = [f for f in files if f.endswith(".py") and "/site/" not in f]
    drawn = chosen(python, options.count, options.seed, lines) if lines or not options.changed else []  # fmt: skip
    table = tomli.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))
    equivalent = {(one["file"], one["before"], one["after"]) for one in table["equivalent"]}
    counts: dict[str, list[Mutant]] = {}
    ends = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        tests = Asked(*environment(Path(folder), files), options.seconds)
        for mutant in drawn:
            if time.monotonic() > ends:
                break
            known = (mutant.file, mutant.before, mutant.after) in equivalent
            what, test = ("equivalent", "") if known else tests.outcome(mutant)
            counts.setdefault(what, []).append(mutant)
            print(f"{what}: {mutant}{f'  by {test}' if test else ''}", flush=True)
        tests.end()
    print(", ".join(f"{len(found)} {what}" for what, found in sorted(counts.items())))
    return int("survived" in counts)


if __name__ == "__main__":
    sys.exit(main())
