"""A pytest plugin for ``bridge_suite.py``: one JSON line for each test as it starts, and for what becomes of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def _write(test: str, outcome: str, message: str = "") -> None:
    with Path(os.environ["BRIDGE_SUITE_OUT"]).open("a") as out:
        out.write(json.dumps({"test": test, "outcome": outcome, "message": message[:2000]}) + "\n")


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    _write(nodeid, "started")


def pytest_runtest_logreport(report: Any) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    # An expected failure says nothing about the device: the vendor does not count it either.
    outcome = "skipped" if hasattr(report, "wasxfail") else report.outcome
    _write(report.nodeid, outcome, _message(report) if outcome == "failed" else "")


def pytest_collectreport(report: Any) -> None:
    if report.outcome == "failed":
        _write(report.nodeid, "failed", _message(report))
    elif report.outcome == "skipped":
        _write(report.nodeid, "skipped")


def _message(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    return text if crash else text.strip().splitlines()[-1]
