"""The vendor's own behaviour tests, run on the emulated HPU without the shim.

``HPUSHIM_BRIDGE_TESTS=FOLDER python tests/emulator/bridge_suite.py [FILE ...] [--mode lazy|eager] [--json OUT]`` runs the files of the
folders ``lazy`` and ``any_mode`` (in eager mode: ``any_mode``) on hpu, each file in its own process, and prints a table by area.
FOLDER is ``tests/pytest_working`` of HabanaAI/gaudi-pytorch-bridge (Apache-2.0), which is no part of this repository. FILE is part of a
file's name.

``bridge_suite.toml`` names the areas, and the expected differences with their reasons; those marked ``internal`` are about parts
of the bridge that the look-alike does not have (compiler passes, loggers, modules ending in ``_C``) and do not count. Everything else that fails
is a failure, and makes the exit status 1.
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

HERE = Path(__file__).resolve().parent
TABLE = HERE / "bridge_suite.toml"
FOLDERS = {"lazy": ("lazy", "any_mode"), "eager": ("any_mode",)}


@dataclass
class AreaCounts:
    """What became of the tests of one area. The lists hold ``[test, reason]``."""

    area: str
    passed: int = 0
    skipped: int = 0  # by the vendor's own marks and lists
    expected: list[list[str]] = field(default_factory=list)  # differences that the table explains
    internal: list[list[str]] = field(default_factory=list)  # of parts that are not there
    failed: list[list[str]] = field(default_factory=list)

    @property
    def counted(self) -> int:
        """Collected and not skipped, without the internals."""
        return self.passed + len(self.expected) + len(self.failed)


@dataclass(frozen=True)
class Options:
    """How a run is made."""

    folder: Path
    mode: str
    limit_s: int = 1800


class Table:
    """Areas and expected differences."""

    def __init__(self) -> None:
        content: dict[str, Any] = tomli.loads(TABLE.read_text(encoding="utf-8"))
        self.areas: list[dict[str, Any]] = content["area"]
        self.expected: list[dict[str, Any]] = content["expected"]

    def area_of(self, file: str) -> str:
        """The first area with a pattern that fits the file's name."""
        name = Path(file).name
        for area in self.areas:
            if any(fnmatch.fnmatch(name, pattern) for pattern in area["files"]):
                return str(area["name"])
        return "other operators"

    def reason_of(self, test: str, message: str) -> tuple[str, bool]:
        """The reason that the table gives for a difference, or nothing; and whether it is about an internal part."""
        for entry in self.expected:
            if not fnmatch.fnmatch(test, entry.get("test", "*")):
                continue
            if re.search(entry.get("message", ""), message):
                return entry["reason"], entry.get("internal", False)
        return "", False


def files_of(options: Options, wanted: list[str]) -> list[str]:
    """The test files, relative to the folder above ``options.folder``."""
    found = [
        path.relative_to(options.folder.parent).as_posix()
        for name in FOLDERS[options.mode]
        for path in sorted((options.folder / name).rglob("*.py"))
        if path.name.startswith("test_") or path.name.endswith("_test.py")
    ]
    return [file for file in found if not wanted or any(word in file for word in wanted)]


def environment(options: Options, work: Path) -> dict[str, str]:
    """An emulated Gaudi's: the look-alike importable first, no shim, no variable that leaks in."""
    from hpushim import emulator

    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "HPUSHIM_CACHE_DIR" or not name.startswith(("HPUSHIM", "PT_", "HABANA"))
    }
    changes = emulator.environment(gaudi="gaudi2")
    return {
        **kept,
        **changes,
        "PYTHONPATH": os.pathsep.join([changes["PYTHONPATH"], str(HERE)]),
        "HPUSHIM": "off",
        "HPUSHIM_LOG": "quiet",
        "PT_HPU_LAZY_MODE": "1" if options.mode == "lazy" else "0",
        "HABANA_LOGS": str(work),
        "OMP_NUM_THREADS": "1",
    }


def run_file(file: str, options: Options) -> dict[str, dict[str, str]]:
    """Run a file's tests; returns the last line of each test by name. A file that cannot be imported is one test."""
    with tempfile.TemporaryDirectory() as work:
        out, log = Path(work, "out.jsonl"), Path(work, "log")
        words = [
            sys.executable, "-m", "pytest", "-p", "bridge_suite_lines", "-p", "no:cacheprovider", "-q", "-W", "ignore",
            "--rootdir=.", f"--mode={options.mode}", "--dut=gaudi2", file,
        ]  # fmt: skip
        variables = environment(options, Path(work)) | {"BRIDGE_SUITE_OUT": str(out)}
        with log.open("wb") as said:
            try:
                status = subprocess.run(
                    words, cwd=options.folder.parent, env=variables, stdout=said, stderr=said,
                    stdin=subprocess.DEVNULL, timeout=options.limit_s, check=False,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                status = -1
        text = out.read_text() if out.exists() else ""
        lines: dict[str, dict[str, str]] = {}
        for line in map(json.loads, text.splitlines()):
            if lines.get(line["test"], {}).get("outcome") != "failed":
                lines[line["test"]] = line
        for line in lines.values():
            if line["outcome"] == "started":
                line.update(outcome="failed", message=f"the process ended with status {status}")
        if not lines and status not in (0, 5):  # 5: the vendor's conftest gives nothing
            end = log.read_text(errors="replace").strip().splitlines()[-1:]
            lines[file] = {"outcome": "failed", "message": f"status {status}: {''.join(end)}"}
        return lines


def count(areas: dict[str, AreaCounts], table: Table, lines: dict[str, dict[str, str]]) -> None:
    """Add a file's lines to its area."""
    for test, line in lines.items():
        name = table.area_of(test.partition("::")[0])
        area = areas.setdefault(name, AreaCounts(name))
        if line["outcome"] == "passed":
            area.passed += 1
        elif line["outcome"] == "skipped":
            area.skipped += 1
        else:
            reason, internal = table.reason_of(test, line["message"])
            place = area.internal if internal else area.expected if reason else area.failed
            place.append([test, reason or line["message"]])


def report(areas: list[AreaCounts]) -> str:
    """The table by area, and what is behind it."""
    lines = [
        "area                            counted passed  share expected failed | internal skipped"
    ]

    def row(name: str, chosen: list[AreaCounts]) -> str:
        counted, passed = sum(a.counted for a in chosen), sum(a.passed for a in chosen)
        share = f"{100 * passed / counted:5.1f}%" if counted else "     –"
        rest = [
            sum(len(getattr(a, which)) for a in chosen)
            for which in ("expected", "failed", "internal")
        ]
        skipped = sum(a.skipped for a in chosen)
        return f"{name:31} {counted:7} {passed:6} {share} {rest[0]:8} {rest[1]:6} | {rest[2]:8} {skipped:7}"

    lines += [row(area.area, [area]) for area in areas]
    lines.append(row("together", areas))
    for title, which in (
        ("failed", "failed"),
        ("expected differences", "expected"),
        ("internals of the bridge, which do not count", "internal"),
    ):
        found = Counter(
            re.sub(r"\d+", "#", reason.splitlines()[0] if reason else "")[:160]
            for area in areas
            for _, reason in getattr(area, which)
        )
        lines.append(f"\n{title}: {sum(found.values())}")
        lines += [f"{number:6}  {reason}" for reason, number in found.most_common(60)]
    return "\n".join(lines)


def main() -> int:
    """Run and print; 1 if a test fails that no expected difference explains."""
    parser = argparse.ArgumentParser(description="the vendor's behaviour tests on the emulated HPU")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--mode", choices=list(FOLDERS), default="lazy")
    parser.add_argument("--limit", type=int, default=1800, help="seconds a file may take")
    parser.add_argument("--json", type=Path, help="write the counts and every failure here")
    given = parser.parse_args()
    where = os.environ.get("HPUSHIM_BRIDGE_TESTS")
    if not where or not (Path(where) / "conftest.py").is_file():
        sys.exit(
            "HPUSHIM_BRIDGE_TESTS names no folder of tests; expected tests/pytest_working of a copy of "
            "HabanaAI/gaudi-pytorch-bridge"
        )
    options = Options(Path(where).resolve(), given.mode, given.limit)
    table, areas = Table(), {}
    for file in files_of(options, given.files):
        begun = time.monotonic()
        lines = run_file(file, options)
        count(areas, table, lines)
        outcomes = Counter(line["outcome"] for line in lines.values())
        sys.stderr.write(f"{file} {dict(outcomes)} {time.monotonic() - begun:.0f} s\n")
        if given.json:
            given.json.write_text(json.dumps([asdict(a) for a in areas.values()], indent=1))
    order = [str(area["name"]) for area in table.areas]
    done = sorted(areas.values(), key=lambda a: order.index(a.area) if a.area in order else 99)
    sys.stdout.write(f"emulated hpu, {given.mode} mode\n{report(done)}\n")
    return int(any(area.failed for area in done))


if __name__ == "__main__":
    sys.exit(main())
