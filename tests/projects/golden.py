"""The demo project as ``migrate`` leaves it: ``char_gpt/after`` and ``char_gpt/report.json``.

python tests/projects/golden.py            # compares, exit code 1 when something differs
python tests/projects/golden.py --update   # writes them anew; read the diff before you commit it
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import running

PROJECT = Path(__file__).resolve().parent / "char_gpt"


def migrate(at: Path) -> tuple[Path, dict[str, Any]]:
    """Migrates a copy of the project below ``at``; returns the copy and the report of what was there before."""
    copy = running.fresh_copy(PROJECT / "before", at / "char_gpt")
    # Not `report`: what it says of dependencies depends on what is installed here.
    report = running.hpushim("check", "--exit-zero", "--format", "json", ".", cwd=copy)
    if report.rc not in (0, 1):
        raise RuntimeError(f"report: exit code {report.rc}: {report.tail()}")
    result = running.hpushim("migrate", "--allow-dirty", ".", cwd=copy)
    if result.rc not in (0, 1):
        raise RuntimeError(f"migrate: exit code {result.rc}: {result.tail()}")
    return copy, stable(json.JSONDecoder().raw_decode(report.output, report.output.index("{\n"))[0])


def stable(report: dict[str, Any]) -> dict[str, Any]:
    """The report without what changes from release to release or from folder to folder."""
    return {key: value for key, value in report.items() if key not in ("tool", "matrix", "rows")}


def differences(copy: Path, report: dict[str, Any]) -> list[str]:
    """The files that differ from what is kept, by name."""
    kept = {name: data for name, (data, _) in running.snapshot(PROJECT / "after").items()}
    now = {name: data for name, (data, _) in running.snapshot(copy).items()}
    found = [name for name in sorted(kept | now) if kept.get(name) != now.get(name)]
    file = PROJECT / "report.json"
    if not file.is_file() or json.loads(file.read_text()) != report:
        found.append("report.json")
    return found


def update(copy: Path, report: dict[str, Any]) -> None:
    """Keeps this copy and this report."""
    running.fresh_copy(copy, PROJECT / "after", (".hpushim", ".git"))
    (PROJECT / "report.json").write_text(json.dumps(report, indent=1) + "\n")


def main() -> int:
    """Compares or updates; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    at = Path(tempfile.mkdtemp())
    try:
        copy, report = migrate(at)
        found = differences(copy, report)
        if options.update:
            update(copy, report)
    finally:
        shutil.rmtree(at, ignore_errors=True)
    print(("updated: " if options.update else "differs: ") + (", ".join(found) or "nothing"))
    return 1 if found and not options.update else 0


if __name__ == "__main__":
    sys.exit(main())
