"""Runs the tests of this folder and writes ``STATEMENTS.md``: ``python tests/frameworks/table.py [--results FILE] [TEST ... OPTION ...]``.

The libraries come from HPUSHIM_FRAMEWORKS_PYTHON, see ``framework_runs.py``; what they lack is skipped, and said so. The runs take an
hour on two cores. They may be cut: with ``--results`` what earlier runs found is read from the file, joined and kept there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from statements import Statement, statements

HERE = Path(__file__).parent
_LIBRARIES = (
    "torch",
    "accelerate",
    "transformers",
    "lightning",
    "lightning-habana",
    "optimum-habana",
    "pytorch-ignite",
    "deepspeed",
    "ray",
)
HEAD = (
    "| page | statement | held by | library | modes | processes | apart from the CPU | result |\n"
    "|---|---|---|---|---|---|---|---|"
)
_BEYOND = ("test_statements.py", "test_held.py")
"""Tests of the table itself, and those that have a table of their own."""
_VERSIONS = """
from importlib.metadata import PackageNotFoundError, version
import sys
for name in sys.argv[1:]:
    try: print(name, version(name))
    except PackageNotFoundError: pass
"""


class Outcome(NamedTuple):
    """What became of a test: its result, why it was skipped, what it ran (Python, where, mode, processes), how far from the CPU."""

    result: str
    reason: str = ""
    runs: tuple[tuple[str, str, str, int], ...] = ()
    apart: float | None = None


class Outcomes:
    """What became of each test, by ``test_file.py::test_name[case]``."""

    def __init__(self, kept: Path | None) -> None:
        """Begins with what a file keeps of earlier runs."""
        self.file = kept
        self.found: dict[str, Outcome] = {}
        if kept and kept.is_file():
            for name, parts in json.loads(kept.read_text(encoding="utf-8")).items():
                self.found[name] = Outcome(parts[0], parts[1], plain_runs(parts[2]), parts[3])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a test, and keeps what was found so far."""
        name = Path(report.fspath).name + "::" + report.nodeid.partition("::")[2]
        if report.when == "call" or report.outcome != "passed":
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self.found[name] = Outcome(report.outcome, reason.removeprefix("Skipped: "))
        if report.when == "teardown" and name in self.found:
            told: dict[str, Any] = dict(report.user_properties)
            runs, apart = plain_runs(told["runs"]), told["apart"]
            self.found[name] = self.found[name]._replace(runs=runs, apart=apart)
            if self.file:
                self.file.write_text(json.dumps(self.found), encoding="utf-8")


def plain_runs(runs: list[Any]) -> tuple[tuple[str, str, str, int], ...]:
    """Runs as a report or a file has them."""
    return tuple((str(a), str(b), str(c), int(d)) for a, b, c, d in runs)


def main() -> int:
    """Runs, writes, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, help="keep what was found in this file")
    parser.add_argument("tests", nargs=argparse.REMAINDER, help="tests to run, as pytest is told")
    words = parser.parse_args()
    outcomes = Outcomes(words.results)
    options = ["-o", "addopts=", "-q", "--no-header", "--tb=short"]
    status = pytest.main([*(words.tests or [str(HERE)]), *options], plugins=[outcomes])
    text = "\n".join(lines(outcomes.found)) + "\n"
    (HERE / "STATEMENTS.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return int(status)


def lines(found: dict[str, Outcome]) -> list[str]:
    """The page."""
    tests = {n: one for n, one in found.items() if not n.startswith(_BEYOND)}
    count = Counter(one.result for one in tests.values())
    reasons = Counter(one.reason for one in tests.values() if one.result == "skipped")
    pythons = os.environ.get("HPUSHIM_FRAMEWORKS_PYTHON", sys.executable).split(os.pathsep)
    return [
        "# What the libraries' pages say of Gaudi, and what became of it",
        "",
        "Written by `python tests/frameworks/table.py`; do not edit. Everything ran on the **emulated** HPU, none of it on a Gaudi.",
        f"Run on {datetime.datetime.now(datetime.timezone.utc).date()}, Python {sys.version.split()[0]}. "
        "Modes: how the device ran; `shim` is an unmodified program for CUDA, the others ran as programs for Gaudi. "
        "Apart from the CPU: the largest relative difference of losses, weights and scores that these tests compared with a run on "
        "the CPU; in bfloat16 and float16 the rounding alone allows 0.02.",
        "",
        *(
            f"- {', '.join(' '.join(part) for part in of_python(python).items())}"
            for python in pythons
        ),
        "",
        HEAD,
        *(row(one, found) for one in statements()),
        "",
        f"{sum(count.values())} tests: " + words_of(count) + ".",
        "",
        *(f"- skipped {number}: {reason}" for reason, number in sorted(reasons.items())),
    ]


@cache
def of_python(python: str) -> dict[str, str]:
    """The libraries of a Python, and their releases."""
    words = [python, "-c", _VERSIONS, *_LIBRARIES]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return {name: version for name, _, version in (x.partition(" ") for x in done.stdout.splitlines())}  # fmt: skip


def words_of(count: Counter[str]) -> str:
    """``3 passed, 1 skipped``."""
    return ", ".join(f"{n} {kind}" for kind, n in sorted(count.items()))


def row(one: Statement, found: dict[str, Outcome]) -> str:
    """A line of the table."""
    mine = {name: outcome for name, outcome in found.items() if one.holds(name)}
    runs = {run for outcome in mine.values() for run in outcome.runs if run[1] != "cpu"}
    modes = {"shim" if where == "cuda" else mode for _, where, mode, _ in runs}
    modes |= {"compile" for name in mine if "compile" in name}
    versions = {of_python(run[0]).get(one.library, "") for run in runs} - {""}
    apart = [outcome.apart for outcome in mine.values() if outcome.apart is not None]
    cells = (
        one.page,
        one.says + (f" ({one.note})" if one.note else ""),
        ", ".join(held_by(one)),
        f"{one.library} {', '.join(sorted(versions))}" if versions else "-",
        ", ".join(sorted(modes)) or "-",
        ", ".join(map(str, sorted({run[3] for run in runs}))) or "-",
        f"{max(apart):.1g}" if apart else "-",
        ", ".join(results(one, mine, found)),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def held_by(one: Statement) -> list[str]:
    """What holds a statement, in words."""
    held = [f"`{pattern}`" for pattern in one.tests]
    held += [f"finding {one.finding}"] if one.finding else []
    return held + ([f"row `{one.row}`"] if one.row else [])


def results(one: Statement, mine: dict[str, Outcome], found: dict[str, Outcome]) -> list[str]:
    """What became of what holds it."""
    told = []
    if one.tests:
        told.append(words_of(Counter(outcome.result for outcome in mine.values())) or "not run")
    if one.finding:
        told.append({"passed": "told", "": "not run"}.get(limitation(one, found), "FAILED"))
    return told + (["stated"] if one.row else [])


def limitation(one: Statement, found: dict[str, Outcome]) -> str:
    """What became of the test that looks for a statement's finding."""
    name = f"test_statements.py::test_limitations_are_found[{one.page}: {one.says}]"
    return found[name].result if name in found else ""


if __name__ == "__main__":
    raise SystemExit(main())
