"""Measures the marks in functions of public repositories against labels made by hand.

    python tests/rules/mark_labels.py FOLDER… [--labels FILE]

A folder holds repositories as ``owner+name`` or ``owner+name@commit``. Labels name places only; a label is stale, and not
counted, where the labelled line of the repository that is there holds no step.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpushim.engine.assess import wanted_kinds
from hpushim.engine.base.text import Project
from hpushim.engine.context import Context
from hpushim.engine.facts import Facts
from hpushim.engine.files.discover import discover
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

LABELS = Path(__file__).with_name("mark_labels.tsv")
_STEP = re.compile(r"step|backward|scaler|optimize")


@dataclass(frozen=True)
class Label:
    """A function, from ``first`` to ``last``, and the lines on which the calls end behind which a mark belongs."""

    repository: str
    path: str
    first: int
    last: int
    marks: frozenset[int]


@dataclass
class Measure:
    """What was found: places as ``repository:path:line``."""

    functions: int = 0
    right: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return len(self.right) / max(1, len(self.right) + len(self.wrong))

    @property
    def recall(self) -> float:
        return len(self.right) / max(1, len(self.right) + len(self.missed))

    def __str__(self) -> str:
        return (
            f"{self.functions} functions, {len(self.right) + len(self.missed)} marks: "
            f"precision {self.precision:.3f}, recall {self.recall:.3f}"
        )


def labels(file: Path = LABELS) -> Iterator[Label]:
    """The labels of a file, in its order."""
    for line in file.read_text().splitlines():
        if line and not line.startswith("#"):
            where, path, lines, marks = line.split("\t")
            first, last = map(int, lines.split("-"))
            expected = frozenset(int(mark) for mark in marks.split(",") if mark)
            yield Label(where.split("@")[0], path, first, last, expected)


def measure(folders: Sequence[Path], file: Path = LABELS) -> Measure:
    """Migrates every labelled file that is there, in memory, and compares the marks."""
    result, projects = Measure(), dict[Path, Project]()
    files: dict[tuple[str, str], list[Label]] = {}
    for label in labels(file):
        files.setdefault((label.repository, label.path), []).append(label)
    for (repository, path), found in files.items():
        root = _root(folders, repository)
        if root is None or not (root / path).is_file():
            continue
        if root not in projects:
            projects[root] = _project(root)
        _compare(result, (root / path).read_text(), path, found, projects[root])
    return result


def _compare(result: Measure, text: str, path: str, found: list[Label], project: Project) -> None:
    lines = text.splitlines()
    context = Context(Target(), load(), project=project)
    findings = settle(text, "python", path, context).findings
    marked = {f.end_line for f in findings if f.code in ("HPU501", "HPU502") and f.applied}
    functions = sorted(
        (node.lineno, node.end_lineno or 0)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    for label in found:
        place = f"{label.repository}:{path}:"
        if any(line > len(lines) or not _STEP.search(lines[line - 1]) for line in label.marks):
            result.stale.append(f"{place}{label.first}")
            continue
        inside = {line for line in marked if _inner(functions, line) == label.first}
        result.functions += 1
        result.right += [f"{place}{line}" for line in sorted(inside & label.marks)]
        result.wrong += [f"{place}{line}" for line in sorted(inside - label.marks)]
        result.missed += [f"{place}{line}" for line in sorted(label.marks - inside)]


def _inner(functions: list[tuple[int, int]], line: int) -> int:
    """The first line of the innermost function around a line; 1 at the top level."""
    return max((first for first, last in functions if first <= line <= last), default=1)


def _root(folders: Sequence[Path], repository: str) -> Path | None:
    for folder in folders:
        found = sorted(folder.glob(f"{repository}*"))
        for each in found:
            if each.name.split("@")[0] == repository and each.is_dir():
                return each
    return None


def _project(root: Path) -> Project:
    facts, files = Facts(), discover([root], root, wanted_kinds(), ()).files
    for file in files:
        if file.path.is_file():
            facts.see(file, file.path.read_bytes())
    return facts.project(root, files)


def main() -> None:
    """Prints the measure and every place that differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--labels", type=Path, default=LABELS)
    given = parser.parse_args()
    found = measure(given.folders, given.labels)
    print(found)
    for name in ("missed", "wrong", "stale"):
        for place in getattr(found, name):
            print(name, place)


if __name__ == "__main__":
    main()
