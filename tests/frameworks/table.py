"""Runs the tests of this folder and writes ``STATEMENTS.md``: ``python tests/frameworks/table.py``.

The libraries come from HPUSHIM_FRAMEWORKS_PYTHON, see ``framework_runs.py``; what they lack is skipped, and said so.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

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
HEAD = "| page | statement | held by | library | modes | processes | result |"
_WORDS = {"eager": ("eager",), "lazy": ("lazy",), "compile": ("compile",)}
_VERSIONS = """
from importlib.metadata import PackageNotFoundError, version
import sys
for name in sys.argv[1:]:
    try: print(name, version(name))
    except PackageNotFoundError: pass
"""


class Outcomes:
    """What became of each test, by ``test_file.py::test_name[case]``."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = Path(report.fspath).name + "::" + report.nodeid.partition("::")[2]
        if report.when == "call" or report.outcome != "passed":
            self.found[name] = report.outcome


def main() -> int:
    """Runs, writes, prints."""
    outcomes = Outcomes()
    status = pytest.main(
        [str(HERE), "-o", "addopts=", "-q", "--no-header", "--tb=short"], plugins=[outcomes]
    )
    lines = [
        "# What the libraries' pages say of Gaudi, and what became of it",
        "",
        "Written by `python tests/frameworks/table.py`; do not edit. Everything ran on the **emulated** HPU, none of it on a Gaudi.",
        f"Run on {datetime.datetime.now(datetime.timezone.utc).date()}, Python {sys.version.split()[0]}. "
        "A skipped test lacks its library in the environments given: another release of Lightning, Optimum.",
        "",
        *(f"- {line}" for line in environments()),
        "",
        HEAD,
        "|---|---|---|---|---|---|---|",
    ]
    known = versions()
    lines += [row(one, outcomes.found, known) for one in statements()]
    tests = Counter(outcomes.found.values())
    lines += [
        "",
        f"{sum(tests.values())} tests: "
        + ", ".join(f"{n} {kind}" for kind, n in sorted(tests.items()))
        + ".",
    ]
    text = "\n".join(lines) + "\n"
    (HERE / "STATEMENTS.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return int(status)


def environments() -> list[str]:
    """The libraries of each Python that is used."""
    found = []
    for python in os.environ.get("HPUSHIM_FRAMEWORKS_PYTHON", sys.executable).split(os.pathsep):
        done = subprocess.run(
            [python, "-c", _VERSIONS, *_LIBRARIES], capture_output=True, text=True, check=False
        )
        found.append(", ".join(done.stdout.splitlines()))
    return found


def versions() -> dict[str, list[str]]:
    """The releases of each library, of all Pythons."""
    found: dict[str, list[str]] = {}
    for line in environments():
        for part in filter(None, line.split(", ")):
            name, _, version = part.partition(" ")
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return found


def held_by(one: Statement) -> str:
    """What holds a statement, in words."""
    if one.finding:
        return f"finding {one.finding}"
    if one.row:
        return f"row `{one.row}`"
    return ", ".join(f"`{pattern}`" for pattern in one.tests)


def row(one: Statement, found: dict[str, str], known: dict[str, list[str]]) -> str:
    """A line of the table."""
    modes = processes = "-"
    held = held_by(one)
    library = "-" if one.finding or one.row else one.library
    if library != "-":
        library += " " + ", ".join(known.get(one.library, ["not there"]))
    if one.finding:
        case = next((n for n in found if n.startswith("test_statements.py") and one.says in n), "")
        result = {"passed": "told", "": "not run"}.get(found.get(case, ""), "FAILED")
    elif one.row:
        result = "stated"
    else:
        mine = {name: outcome for name, outcome in found.items() if one.holds(name)}
        result = (
            ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(mine.values()).items()))
            or "not run"
        )
        modes = (
            ", ".join(w for w, s in _WORDS.items() if any(x in n for n in mine for x in s))
            or "eager"
        )
        several = any(
            "2" in n.partition("[")[2].replace("16", "").replace("32", "").split("-") or "two" in n
            for n in mine
        )
        one_process = any("1" in n.partition("[")[2].split("-") or "claim[" in n for n in mine)
        processes = (
            ", ".join(w for w, there in (("1", one_process), ("2", several)) if there) or "1"
        )
    cells = (one.page, one.says, held, library, modes, processes, result)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
