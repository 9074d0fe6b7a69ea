"""Mutation testing: one small change of the sources at a time, and whether a related test fails.

``python tests/mutants.py [--count 100] [--seed 1] [--changed COMMIT] [--minutes 60]`` works on a copy of the tracked files. It
runs all tests once to learn which lines each reaches (``--kept FILE`` keeps that for later runs), asks those that reach a mutant, near
ones first, and lists the survivors. Those of ``mutants.toml`` change nothing that anybody could notice. With ``--changed`` the tests are
those that names lead to.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import operator
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
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import related
import tomli

ROOT = related.ROOT
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
    #: The innermost lines of a function that it stands in, as a map has them; empty where an import runs it.
    place: str = ""

    def text(self) -> str:
        """Its line as ``mutants.toml`` has it: by what stands there, which moves with other changes."""
        return (ROOT / self.file).read_text(encoding="utf-8").splitlines()[self.line - 1].strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before!r} -> {self.after!r}"


def mutants(file: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its tree."""
    data = (ROOT / file).read_bytes()
    span = _spans(data)
    suites = [(span(part[0])[0], span(part[-1])[1], name) for name, part in _suites(ast.parse(data))]  # fmt: skip

    def inside(start: int) -> str:
        return min(((last - first, name) for first, last, name in suites if first <= start < last), default=(0, ""))[1]  # fmt: skip

    for node in _that_run(ast.parse(data)):
        after = _instead(node)
        if after is None:
            continue
        assert isinstance(node, (ast.expr, ast.stmt))
        start, end = span(node)
        before = data[start:end].decode()
        if "\n" in before:
            continue
        yield Mutant(file, node.lineno, start, end, before, after, inside(start))


def _that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run and have a place: no annotations, patterns, or texts with values."""
    left = [tree]
    for node in left:
        yield node
        if isinstance(node, ast.keyword) and node.arg in ("frozen", "kw_only"):
            continue  # that nothing assigns there, or calls it otherwise, is for the type checker
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
        # None is as false as False is, and ``False -> True`` is asked as well.
        false = isinstance(node.value, ast.Constant) and (node.value.value is None or node.value.value is False)  # fmt: skip
        return None if false else "return None"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return "pass"
    if isinstance(node, (ast.Continue, ast.Break)):
        return "break" if isinstance(node, ast.Continue) else "continue"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return str(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return str(node.value + 1)
    return None


def _spans(data: bytes) -> Callable[[ast.expr | ast.stmt], tuple[int, int]]:
    """From which byte to which a node stands."""
    lines = [0]
    for line in data.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        first, last = lines[node.lineno - 1], lines[(node.end_lineno or 0) - 1]
        return first + node.col_offset, last + (node.end_col_offset or 0)

    return span


def _suites(tree: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Each run of statements in a function, with a name that stays while other functions change."""

    def within(node: ast.AST, name: str, counts: Counter[str], function: bool) -> Iterator[tuple[str, list[ast.stmt]]]:  # fmt: skip
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                is_function = not isinstance(child, ast.ClassDef)
                inner = f"{name}.{child.name}"
                if is_function:
                    counts[inner] += 1
                    yield f"{inner}#{counts[inner]}", child.body
                yield from within(child, inner, counts, is_function)
            else:
                if function:
                    for field in ("body", "orelse", "finalbody"):
                        if isinstance(lines := getattr(child, field, None), list) and lines:
                            counts[name] += 1
                            yield f"{name}#{counts[name]}", lines
                yield from within(child, name, counts, function)

    return within(tree, "", Counter(), False)


def places(data: bytes) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Each place's name, and what says that it is reached: at which byte which text is put in."""
    span = _spans(data)
    for name, lines in _suites(ast.parse(data)):
        for line in lines:
            while isinstance(line, (ast.Try,)):
                line = line.body[0]
            value = None
            if isinstance(line, (ast.If, ast.While)):
                value = line.test
            elif isinstance(line, (ast.For, ast.AsyncFor)):
                value = line.iter
            elif isinstance(line, (ast.With, ast.AsyncWith)):
                value = line.items[0].context_expr
            elif isinstance(line, ast.Match):
                value = line.subject
            elif isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)):  # fmt: skip
                continue
            if value is None:
                yield name, [(span(line)[0], "_is_reached_here({}); ")]
            else:
                first, last = span(value)
                yield name, [(first, "(_is_reached_here({}) or ("), (last, "))")]
            break


def chosen(files: list[str], count: int, seed: int, lines: dict[str, set[int]]) -> list[Mutant]:
    """Some of all mutants, from each part alike; with ``lines`` those of these lines alone."""
    picked = random.Random(seed)
    by_part: dict[str, list[str]] = {}
    for file in files:
        top, *inner = Path(file).parts
        if top in ("codemods", "hpushim"):
            by_part.setdefault(inner[0] if top == "hpushim" and len(inner) > 1 else top, []).append(file)  # fmt: skip
    pools = [[m for f in by_part[part] for m in mutants(f) if not lines or m.line in lines.get(f, ())] for part in sorted(by_part)]  # fmt: skip
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
    for other in ours.iterdir():
        if not (theirs / other.name).exists():
            (theirs / other.name).symlink_to(other)
    bin_ = folder / "venv" / "bin"
    for script in Path(sys.executable).parent.iterdir():  # torchrun, say, is started by its name
        if not (bin_ / script.name).exists() and script.is_file():
            text = script.read_bytes().replace(os.fsencode(sys.prefix), os.fsencode(folder / "venv"))  # fmt: skip
            if text.startswith(b"#!"):
                (bin_ / script.name).write_bytes(text)
                (bin_ / script.name).chmod(0o755)
    return tree, str(bin_ / "python")


#: Loaded by every Python of a map's environment: what it reaches is said when it ends.
_PROBE = """\
import atexit, builtins, os, time
_seen = set()
builtins._is_reached_here = _seen.add

def _say():
    try:
        with open({folder!r} + "/test") as file:
            test = file.read()
        with open("%s/%d.%d" % ({folder!r}, os.getpid(), time.monotonic_ns()), "w") as file:
            file.write("%s\\n%s" % (test, " ".join(map(str, _seen))))
    except OSError:
        pass

atexit.register(_say)
"""


class Asked:
    """The tests of one tree, collected once by a process that forks for each mutant; see ``asked.py``."""

    def __init__(
        self, tree: Path, python: str, files: list[str], reached: Path | None = None
    ) -> None:
        self.tree, self.python = tree, python
        self._changes = 0
        jobs, answers = os.pipe(), os.pipe()
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        env |= {"HPUSHIM": "off", "PYTHONPATH": "tests", "HPUSHIM_ASKED": f"{jobs[0]},{answers[1]}"}
        env["OMP_NUM_THREADS"] = "1"  # a fork waits for ever for threads that it has not
        if reached:
            env["HPUSHIM_REACHED"] = str(reached)
        command = [python, "-m", "pytest", "-p", "asked", "-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors", "-m", "not slow and not bench", *files]  # fmt: skip
        self._process = subprocess.Popen(command, cwd=tree, env=env, pass_fds=[jobs[0], answers[1]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        os.close(jobs[0])
        os.close(answers[1])
        self._jobs, self._answers = os.fdopen(jobs[1], "w"), os.fdopen(answers[0])
        first = json.loads(self._answers.readline() or "{}")
        self.tests: list[str] = first.get("tests", [])
        self.warm: str = first.get("warm", "")
        self.first: int = int(first.get("first") or "0", 16)

    def end(self) -> None:
        self._jobs.close()
        self._process.wait()

    def ask(self, tests: list[str], costs: dict[str, float], **how: object) -> dict[str, Any]:
        asked = {"tests": tests, "costs": {test: costs.get(test, 0.1) for test in tests}, **how}
        print(json.dumps(asked), file=self._jobs, flush=True)
        answer: dict[str, Any] = json.loads(self._answers.readline())
        return answer

    def _write(self, path: Path, data: bytes) -> None:
        """With a time of its own: byte code is known by the second."""
        self._changes += 1
        path.write_bytes(data)
        at = path.stat().st_mtime + 2 * self._changes
        os.utime(path, (at, at))

    def outcome(self, mutant: Mutant, tests: list[str], costs: dict[str, float], again: list[str]) -> tuple[str, str]:  # fmt: skip
        """``killed`` and by which test and why, or ``survived``. Those of ``again`` are asked anew where the change runs at an import."""
        path = self.tree / mutant.file
        data = path.read_bytes()
        changed = data[: mutant.start] + mutant.after.encode() + data[mutant.end :]
        before, after = self.tree.parent / "before", self.tree.parent / "after"
        before.write_bytes(data)
        after.write_bytes(changed)
        try:
            self._write(path, changed)
            said = self.ask(tests, costs, file=str(path), before=str(before), after=str(after))
            if said["failed"]:
                return f"killed by {said['failed']}", said["why"]
            if said.get("broke"):  # the mutant was not asked
                raise RuntimeError(f"{mutant}: {said['broke']}")
            if (again or not said["taken"]) and (test := self.anew(again or tests, costs)):
                return f"killed by {test}", "in a process of its own"
        finally:
            self._write(path, data)
        return "survived", ""

    def anew(self, tests: list[str], costs: dict[str, float]) -> str:
        """The first of these tests that fails in a process that reads all sources; empty if none."""
        only = self.tree.parent / "only"
        only.write_text("\n".join(tests))
        files = sorted({test.partition("::")[0] for test in tests})
        command = [self.warm, "-m", "pytest", "-x", "-vv", "-p", "costs", "-p", "no:cacheprovider", "-p", "no:xdist", *files]  # fmt: skip
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        env |= {
            "HPUSHIM": "off",
            "PYTHONPATH": "tests",
            "HPUSHIM_TESTS_ONLY": str(only),
            "HPUSHIM_WARM": self.warm,
        }
        try:
            left = 120 + 10 * sum(costs.get(test, 0.1) for test in tests)
            out = subprocess.run(command, cwd=self.tree, env=env, capture_output=True, timeout=left, check=False).stdout  # fmt: skip
        except subprocess.TimeoutExpired:
            return ""  # which says nothing where others work
        lines = out.decode(errors="replace").splitlines()
        for line in lines:
            if re.match(r"tests/\S+::", line) and not re.search(r" (PASSED|SKIPPED|XFAIL|XPASS)\b", line):  # fmt: skip
                return re.split(r" (?:FAILED|ERROR)?\s*(?:\[ *\d+%\])?$", line)[0].strip()
        return next((line.split()[1] for line in lines if line.startswith("ERROR ")), "")


class Map(NamedTuple):
    """What one run of the tests said: what each costs, which places of which file it reaches, and which places an import does."""

    places: dict[tuple[str, str], int]
    seconds: dict[str, float]
    reached: dict[str, int]
    first: int
    failed: set[str]

    def chosen(self, mutant: Mutant, tests: list[str], budget: float) -> list[str]:
        """The tests to ask, within a budget: those that reach the place, near ones first; then near ones that may reach it by what is
        kept of earlier tests. Of each file the cheapest first, as many of one file as cost what one of another does."""
        near = [word.partition("::")[0] for words in related.commands([mutant.file], always=False) for word in words]  # fmt: skip
        room = "rules" if mutant.file.startswith("codemods/") else Path(mutant.file).parts[1]
        near = [n for n in near if n.startswith("tests/") and n not in related.ALWAYS] + [
            f"tests/{room}/"
        ]
        number = self.places.get((mutant.file, mutant.place))
        own = Path(mutant.file).stem.strip("_")

        def rank(test: str) -> int:
            file = test.partition("::")[0]
            reaches = number is not None and bool(self.reached.get(test, 0) >> number & 1)
            is_near = file.startswith(tuple(near)) or own in Path(file).stem
            if not reaches and (not is_near or (test in self.reached and number is not None)):
                return 3 if is_near else 9
            return 0 if is_near and (reaches or test not in self.reached) else 1 if reaches else 2

        groups: dict[int, dict[str, list[tuple[float, str]]]] = {}
        for test in tests:
            if test not in self.failed and (where := rank(test)) < 9:
                files = groups.setdefault(where, {})
                files.setdefault(test.partition("::")[0], []).append(
                    (self.seconds.get(test, 0.01), test)
                )
        found, left = [], budget
        for where in sorted(groups):
            part = left * (0.6 if where == 0 and 1 in groups else 0.3 if where == 3 else 1)
            order = [((turn + 1) * cost, cost, test) for one in groups[where].values() for turn, (cost, test) in enumerate(sorted(one))]  # fmt: skip
            for _, cost, test in sorted(order):
                if cost <= part:
                    part -= cost
                    left -= cost
                    found.append(test)
        return found


#: Tests of what all files say when they are imported.
_AT_IMPORT = "tests/test_defaults.py::"


def _of_few_files(tests: list[str]) -> list[str]:
    """Those of the eight files that come first: a process of its own reads each file anew."""
    few = list(dict.fromkeys(test.partition("::")[0] for test in tests))[:8]
    return [test for test in tests if test.partition("::")[0] in few]


def _starts_processes(file: str) -> bool:
    """Whether the tests of a file take long: those run last."""
    return bool(re.search(r"\b(warm|subprocess)\b", (ROOT / file).read_text(encoding="utf-8")))


def _spread(tests: list[str]) -> list[str]:
    """All of them, the first of each fifth ahead."""
    first = tests[:: max(len(tests) // 5, 1)][:5]
    return first + [test for test in tests if test not in set(first)]


def mapped(tree: Path, python: str, sources: list[str], kept: Path, files: list[str]) -> Map:
    """Runs the tests of these files that the map has not, with every place saying that it is reached; a fork for each file."""
    found = tree.parent / "reached"
    found.mkdir()
    probe = next(tree.parent.glob("venv/lib/python*/site-packages")) / "mutants_probe"
    probe.with_suffix(".py").write_text(_PROBE.format(folder=str(found)))
    probe.with_suffix(".pth").write_text("import mutants_probe\n")
    known = Map(*pickle.loads(kept.read_bytes())) if kept.exists() else Map({}, {}, {}, 0, set())
    originals = {}
    for file in sources:
        path = tree / file
        originals[path] = data = path.read_bytes()
        changes = []
        for place, texts in places(data):
            number = known.places.setdefault((file, place), len(known.places))
            changes += [(at, text.format(number)) for at, text in texts]
        for at, text in sorted(changes, key=lambda one: one[0], reverse=True):
            data = data[:at] + text.encode() + data[at:]
        ast.parse(data)
        path.write_bytes(data)
    asked = Asked(tree, python, files, found)
    first = known.first | asked.first
    by_file: dict[str, list[str]] = {}
    for test in asked.tests:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    written = time.monotonic()
    for file in sorted(by_file, key=_starts_processes):
        tests = by_file[file]
        left = _spread([t for t in tests if t not in known.seconds and t not in known.failed])
        while left:
            said = asked.ask(left, {}, all=True)
            known.seconds.update(said["passed"])
            known.failed.update(said.get("all failed", ()), {said["failed"]} - {""})
            known.reached.update({test: int(bits, 16) for test, bits in said["reached"].items()})
            after = [t for t in left if t not in known.seconds and t not in known.failed]
            if not said["failed"]:
                for test in after:  # others of its function stand for it
                    own = [one for one in said["passed"] if one.partition("[")[0] == test.partition("[")[0]]  # fmt: skip
                    known.reached[test] = functools.reduce(operator.or_, (known.reached[one] for one in own), 0)  # fmt: skip
                    known.seconds[test] = sum(said["passed"][one] for one in own) / max(len(own), 1)
                break
            left = after if len(after) < len(left) else []
        spent = sum(known.seconds.get(test, 0) for test in tests)
        print(f"{spent:7.1f} s  {len(tests)} tests  {file}", flush=True)
        if time.monotonic() > written + 60:
            written = time.monotonic()
            kept.write_bytes(pickle.dumps(tuple(known._replace(first=first))))
    kept.write_bytes(pickle.dumps(tuple(known._replace(first=first))))
    asked.end()
    for path, data in originals.items():
        path.write_bytes(data)
    return known._replace(first=first)


def main() -> int:
    """Prints each mutant with its outcome, then the survivors; 1 where there is one that is not known to be equivalent."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--count", type=int, default=100)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--minutes", type=float, default=240)
    asked.add_argument("--seconds", type=float, default=30, help="of tests for each mutant")
    asked.add_argument("--changed", metavar="COMMIT")
    asked.add_argument("--kept", type=Path, metavar="FILE", help="keeps, or reads, what each test reaches")  # fmt: skip
    asked.add_argument("--map", action="store_true", help="runs the tests that FILE has not, and ends")  # fmt: skip
    asked.add_argument("--tests", nargs="+", metavar="PATH", help="those to ask")
    asked.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="of those that were drawn")  # fmt: skip
    options = asked.parse_args()
    said = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [file for file in said.stdout.splitlines() if (ROOT / file).is_file()]
    lines = changed_lines(options.changed) if options.changed else {}
    python = [f for f in files if f.endswith(".py") and "/site/" not in f]
    drawn = chosen(python, options.count, options.seed, lines) if lines or not options.changed else []  # fmt: skip
    table = tomli.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))
    equivalent = {(one["file"], one["line"], one["before"], one["after"]) for one in table["equivalent"]}  # fmt: skip
    counts: Counter[str] = Counter()
    ends = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        tree, own = environment(Path(folder), files)
        kept = options.kept or Path(folder, "map")
        asked_files = options.tests or ["tests"]
        if options.changed and not kept.exists():  # what names lead to has to do
            known = Map({}, {}, {}, 0, set())
        elif options.map or not kept.exists():
            sources = [f for f in python if f.startswith(("codemods/", "hpushim/"))]
            known = mapped(tree, own, sources, kept, asked_files)
        else:
            known = Map(*pickle.loads(kept.read_bytes()))
        if options.map:
            return 0
        tests = Asked(tree, own, asked_files)
        sound: set[str] = set()
        for number, mutant in enumerate(drawn):
            if options.only and number not in options.only:
                continue
            if time.monotonic() > ends:
                break
            begun = time.monotonic()
            what, why = "equivalent", ""
            if (mutant.file, mutant.text(), mutant.before, mutant.after) not in equivalent:
                place = known.places.get((mutant.file, mutant.place))
                at_import = place is None or bool(known.first >> place & 1)
                while True:
                    chosen_ = known.chosen(mutant, tests.tests, options.seconds)
                    again = _of_few_files(known.chosen(mutant, tests.tests, options.seconds / 2))
                    again += [test for test in tests.tests if test.startswith(_AT_IMPORT) and test not in again and test not in known.failed]  # fmt: skip
                    what, why = tests.outcome(mutant, chosen_, known.seconds, again if at_import else [])  # fmt: skip
                    by = what.removeprefix("killed by ")
                    if not what.startswith("killed") or by in sound or "::" not in by:
                        break
                    anew = why == "in a process of its own"
                    before = chosen_[: chosen_.index(by) + 1] if by in chosen_ else [by]
                    if tests.anew([by], known.seconds) if anew else tests.ask(before, known.seconds)["failed"]:  # fmt: skip
                        print(f"without a mutant fails {by}", flush=True)
                        known.failed.add(by)
                        continue
                    sound.add(by)
                    break
            counts[what.split()[0]] += 1
            print(f"{number} {what.split()[0]}: {mutant}  {what.partition(' ')[2]} {why}".rstrip() + f"  [{time.monotonic() - begun:.0f} s]", flush=True)  # fmt: skip
        tests.end()
    print(", ".join(f"{found} {what}" for what, found in sorted(counts.items())))
    return int("survived" in counts)


if __name__ == "__main__":
    sys.exit(main())
