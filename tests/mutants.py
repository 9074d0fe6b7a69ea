"""Mutation testing: one small change of the sources at a time, and whether a related test fails.

``python tests/mutants.py [--count 100] [--seed 1] [--changed COMMIT] [--minutes 60]`` works on a copy of the tracked files. It
runs all tests once to learn which of them reach each mutant, asks these, and lists the survivors. Those of ``mutants.toml`` change
nothing that anybody could notice.
"""

from __future__ import annotations

import argparse
import ast
import os
import pickle
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
    #: What says that the place is reached: at which byte which text is put in.
    probe: tuple[tuple[int, str], ...] = ()

    def text(self) -> str:
        """Its line as ``mutants.toml`` has it: by what stands there, which moves with other changes."""
        return (ROOT / self.file).read_text(encoding="utf-8").splitlines()[self.line - 1].strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before!r} -> {self.after!r}"


def mutants(file: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its tree."""
    data = (ROOT / file).read_bytes()
    lines = [0]
    for line in data.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def place(node: ast.expr | ast.stmt) -> tuple[int, int]:
        first, last = lines[node.lineno - 1], lines[(node.end_lineno or 0) - 1]
        return first + node.col_offset, last + (node.end_col_offset or 0)

    for node in _that_run(ast.parse(data)):
        after = _instead(node)
        if after is None:
            continue
        assert isinstance(node, (ast.expr, ast.stmt))
        start, end = place(node)
        before = data[start:end].decode()
        if "\n" in before:
            continue
        value = node.value if isinstance(node, (ast.Return, ast.Expr)) else node
        assert value is not None
        first, last = place(value)
        probe = ((first, "(_reached({}) or ("), (last, "))"))
        if not isinstance(value, ast.expr):
            probe = ((first, "_reached({}); "),)
        yield Mutant(file, node.lineno, start, end, before, after, probe)


def _that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run and have a place: no annotations, patterns, or texts with values."""
    left = [tree]
    for node in left:
        yield node
        if isinstance(node, ast.keyword) and node.arg == "frozen":
            continue  # that nothing assigns there is for the type checker
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns"):
                children = value if isinstance(value, list) else [value]
                left += [child for child in children if isinstance(child, ast.AST) and not isinstance(child, (ast.pattern, ast.JoinedStr))]  # fmt: skip


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


def probed(data: bytes, drawn: dict[int, Mutant]) -> bytes:
    """A file that says which of the mutants' places it reaches."""
    changes = [(at, i == 0, last - at, text.format(number)) for number, mutant in drawn.items() for i, (at, text) in enumerate(mutant.probe) for last in [mutant.probe[-1][0]]]  # fmt: skip
    # Where two begin the longer is outside; none begins where another ends.
    for at, _, _, text in sorted(changes, key=lambda c: (c[0], not c[1], -c[2]), reverse=True):
        data = data[:at] + text.encode() + data[at:]
    return data


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
    for file in (*ours.glob("*hpushim*.pth"), *ours.glob("__editable__*.py")):
        (theirs / file.name).write_text(file.read_text().replace(str(ROOT), str(tree)))
    (theirs / "zz_others.pth").write_text(f"{ours}\n")
    return tree, str(folder / "venv" / "bin" / "python")


#: Loaded by every Python of the environment; what it starts inherits the name of the test.
_PROBE = """\
import builtins, os, sys
_seen = set()

def _reached(number):
    line = f"{{number}}\\t{{os.environ.get('PYTEST_CURRENT_TEST', '').rpartition(' (')[0]}}\\n"
    if line not in _seen:
        _seen.add(line)
        with open({file!r}, "a") as out:
            out.write(line)

builtins._reached = _reached
"""


class Costs(NamedTuple):
    """What one run of all tests said: what each test costs, and which reach each mutant."""

    seconds: dict[str, float]
    reached: dict[int, set[str]]

    def chosen(self, number: int, mutant: Mutant, budget: float) -> list[str]:
        """The tests to ask, within a budget: those that names lead to, then others; one of each file in turn, the cheapest first."""
        near = [word.partition("::")[0] for words in related.commands([mutant.file], always=False) for word in words]  # fmt: skip
        room = "rules" if mutant.file.startswith("codemods/") else Path(mutant.file).parts[1]
        near.append(f"tests/{room}/")
        reached = self.reached.get(number, set())
        if "" in reached:  # while a module was loaded
            reached = reached | {test for test in self.seconds if test.startswith(tuple(near))}
        files: dict[str, list[tuple[float, str]]] = {}
        for test in reached & self.seconds.keys():
            files.setdefault(test.partition("::")[0], []).append((self.seconds[test], test))
        order = [(turn, file, cost, test) for file, tests in files.items() for turn, (cost, test) in enumerate(sorted(tests))]  # fmt: skip
        found, left, begun = [], {True: budget / 2, False: budget / 2}, set()
        order.sort(key=lambda one: (not one[1].startswith(tuple(near)), one))
        for _, file, cost, test in order:
            is_near = file.startswith(tuple(near))
            cost += 0 if file in begun else 0.5
            if cost <= left[is_near]:
                left[is_near] -= cost
                begun.add(file)
                found.append(test)
        return found


class Asked:
    """The tests of one tree, run by forks of a Python that holds torch; they read the sources anew each time."""

    def __init__(self, tree: Path, python: str, seconds: float) -> None:
        self.tree, self.seconds = tree, seconds
        self._own = python
        code = "import sys, warm; print(warm.python(), flush=True); sys.stdin.read()"
        env = {**os.environ, "HPUSHIM": "off", "PYTHONPATH": str(tree / "tests")}
        self._server = subprocess.Popen([python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)  # fmt: skip
        assert self._server.stdout
        self._python = self._server.stdout.readline().strip()

    def end(self) -> None:
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait()

    def costs(self, drawn: list[Mutant], workers: int) -> Costs:
        """Runs all tests once, with every mutant's place saying that it is reached."""
        found = self.tree.parent / "reached"
        probe = next(self.tree.parent.glob("venv/lib/python*/site-packages")) / "mutants_probe"
        probe.with_suffix(".py").write_text(_PROBE.format(file=str(found)))
        probe.with_suffix(".pth").write_text("import mutants_probe\n")
        files = {mutant.file: (self.tree / mutant.file).read_bytes() for mutant in drawn}
        for file, data in files.items():
            here = {number: mutant for number, mutant in enumerate(drawn) if mutant.file == file}
            (self.tree / file).write_bytes(probed(data, here))
        costs = self.tree.parent / "costs"
        words = [self._own, "-m", "pytest", "-q", "-p", "costs", "-p", "no:cacheprovider", "-m", "not slow and not bench", *(["-n", str(workers), "--dist", "loadfile"] if workers else [])]  # fmt: skip
        env = {**os.environ, "HPUSHIM": "off", "PYTHONPATH": "tests", "HPUSHIM_COSTS": str(costs)}
        subprocess.run(words, cwd=self.tree, env=env, check=False)
        for file, data in files.items():
            (self.tree / file).write_bytes(data)
        probe.with_suffix(".pth").unlink()
        seconds, reached = {}, {}
        for line in costs.read_text().splitlines():
            cost, _, test = line.partition("\t")
            seconds[test] = float(cost)
        for line in found.read_text().splitlines():
            number, _, test = line.partition("\t")
            reached.setdefault(int(number), set()).add(test)
        return Costs(seconds, reached)

    def failed(self, tests: list[str], ends: float) -> str:
        """The first of these tests that fails, or does not end; empty if none."""
        only = self.tree.parent / "only"
        only.write_text("\n".join(tests))
        files = sorted({test.partition("::")[0] for test in tests})
        command = [self._python, "-m", "pytest", "-x", "-vv", "-p", "costs", "-p", "no:cacheprovider", *files]  # fmt: skip
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        env |= {"HPUSHIM": "off", "PYTHONPATH": "tests", "HPUSHIM_TESTS_ONLY": str(only)}
        try:
            left = max(1, ends - time.monotonic())
            out = subprocess.run(command, cwd=self.tree, env=env, capture_output=True, timeout=left, check=False).stdout  # fmt: skip
        except subprocess.TimeoutExpired as late:
            out = late.stdout or b""
        lines = out.decode(errors="replace").splitlines()
        for line in lines:
            if re.match(r"tests/\S+::", line) and not re.search(r" (PASSED|SKIPPED|XFAIL|XPASS)\b", line):  # fmt: skip
                return re.split(r" (?:FAILED|ERROR)?\s*(?:\[ *\d+%\])?$", line)[0].strip()
        return next((line.split()[1] for line in lines if line.startswith("ERROR ")), "")

    def outcome(self, mutant: Mutant, tests: list[str]) -> tuple[str, str]:
        """``killed`` and by which test, ``survived``, ``no test``, or ``undecided`` where the time did not suffice."""
        if not tests:
            return "no test", ""
        path = self.tree / mutant.file
        data = path.read_bytes()
        ends = time.monotonic() + 10 + 6 * self.seconds  # of the clock, where others work
        try:
            path.write_bytes(data[: mutant.start] + mutant.after.encode() + data[mutant.end :])
            test = self.failed(tests, ends)
            if test and time.monotonic() > ends:  # one test that hangs, or one of many
                test = self.failed([test], time.monotonic() + 6 * self.seconds)
                return ("killed", test) if test else ("undecided", "")
        finally:
            path.write_bytes(data)
        return ("killed", test) if test else ("survived", "")


def main() -> int:
    """Prints each mutant with its outcome, then the survivors; 1 where there is one that is not known to be equivalent."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--count", type=int, default=100)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--minutes", type=float, default=240)
    asked.add_argument("--seconds", type=float, default=60, help="of tests for each mutant")
    asked.add_argument("--workers", type=int, default=2, help="for the one run of all tests")
    asked.add_argument("--changed", metavar="COMMIT")
    asked.add_argument("--kept", type=Path, metavar="FILE", help="keeps, or reads, what the run of all tests said")  # fmt: skip
    asked.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="of those that were drawn")  # fmt: skip
    options = asked.parse_args()
    said = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [file for file in said.stdout.splitlines() if (ROOT / file).is_file()]
    lines = changed_lines(options.changed) if options.changed else {}
    python = [f for f in files if f.endswith(".py") and "/site/" not in f]
    drawn = chosen(python, options.count, options.seed, lines) if lines or not options.changed else []  # fmt: skip
    table = tomli.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))
    equivalent = {(one["file"], one["line"], one["before"], one["after"]) for one in table["equivalent"]}  # fmt: skip
    counts: dict[str, list[Mutant]] = {}
    killers: dict[str, Mutant] = {}
    ends = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        tests = Asked(*environment(Path(folder), files), options.seconds)
        if options.kept and options.kept.exists():
            costs = Costs(*pickle.loads(options.kept.read_bytes()))
        else:
            costs = tests.costs(drawn, options.workers)
            if options.kept:
                options.kept.write_bytes(pickle.dumps(tuple(costs)))
        for number, mutant in enumerate(drawn):
            if options.only and number not in options.only:
                continue
            if time.monotonic() > ends:
                break
            known = (mutant.file, mutant.text(), mutant.before, mutant.after) in equivalent
            what, test = ("equivalent", "") if known else tests.outcome(mutant, costs.chosen(number, mutant, options.seconds))  # fmt: skip
            counts.setdefault(what, []).append(mutant)
            killers |= {test: mutant} if "::" in test else {}
            print(f"{number} {what}: {mutant}{f'  by {test}' if test else ''}", flush=True)
        while killers:
            test = tests.failed(list(killers), time.monotonic() + 900)
            if test not in killers:
                break
            print(f"undecided: {killers.pop(test)}, for {test} fails without it, too")
        tests.end()
    print(", ".join(f"{len(found)} {what}" for what, found in sorted(counts.items())))
    return int("survived" in counts)


if __name__ == "__main__":
    sys.exit(main())
