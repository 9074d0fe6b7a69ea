"""Renders every format for projects on this machine and has each read by its own schema or consumer; ends in one table.

    python tests/report/formats.py [--sarif-schema FILE] [--junit-xsd FILE] [--keep FOLDER] PROJECT ...

``--sarif-schema``: OASIS's ``sarif-schema-2.1.0.json``; ``--junit-xsd``: Jenkins' ``junit-10.xsd`` (needs the package ``xmlschema``).
Both are outside this tree; without them these two are read as the tests read them. Exit code 1 when a format is not valid.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import jsonschema
from readers import READERS

from hpushim.engine.project import analyse
from hpushim.model import Report, Target
from hpushim.report import FORMATS, assess, render

#: What a browser should be asked to open at once.
LARGEST_PAGE = 5_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("projects", nargs="+", type=Path)
    parser.add_argument("--sarif-schema", type=Path)
    parser.add_argument("--junit-xsd", type=Path)
    parser.add_argument("--keep", type=Path, help="write the reports here")
    asked = parser.parse_args()
    print(
        "| project | lines | findings | format | bytes | seconds | valid |\n|---|---|---|---|---|---|---|"
    )
    wrong = 0
    for project in asked.projects:
        report = analyse((project,), Target(), propose=True)
        for form in FORMATS:
            wrong += _row(asked, project.resolve().name, report, form)
    return 1 if wrong else 0


def _row(asked: argparse.Namespace, name: str, report: Report, form: str) -> bool:
    """Prints the line of one format; was anything wrong with it?"""
    made = assess(report)
    begun = time.process_time()
    text = render(report, form)
    spent = time.process_time() - begun
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
        (asked.keep / f"{name}.{form}").write_text(text, encoding="utf-8")
    said = _assessed(asked, made, form, text)
    print(f"| {name} | {report.python_lines:,} | {made.summary.findings:,} | {form} | {len(text.encode()):,} | {spent:.2f} | {said} |", flush=True)  # fmt: skip
    return said != "yes" and not said.startswith("by ")


def _assessed(asked: argparse.Namespace, made: object, form: str, text: str) -> str:
    """``yes``, by what else, or what is wrong."""
    try:
        for counted, number in READERS[form](made, text).items():  # type: ignore[arg-type]
            expected = getattr(made.summary, counted)  # type: ignore[attr-defined]
            if number != expected:
                return f"{counted}: {number} instead of {expected}"
        if form == "html" and len(text.encode()) > LARGEST_PAGE:
            return "too large"
        if form == "sarif" and asked.sarif_schema:
            jsonschema.validate(json.loads(text), json.loads(asked.sarif_schema.read_text()))
            return "by OASIS's schema"
        if form == "junit" and asked.junit_xsd:
            import xmlschema

            xmlschema.XMLSchema(str(asked.junit_xsd)).validate(text)
            return "by Jenkins' schema"
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    return "yes"


if __name__ == "__main__":
    sys.exit(main())
