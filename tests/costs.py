"""What each test costs, in CPU seconds of all the processes that it starts: ``PYTHONPATH=tests pytest -p costs``.

Lists the files that cost most; with ``HPUSHIM_COSTS=FILE`` each test that passes is kept there. Times of day say little on a machine that others use.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_spent: Counter[str] = Counter()
_failed: set[str] = set()


def _cpu() -> float:
    """Of this process, of those that it waited for, and of those that run (what answers for ``warm.run`` is one) with theirs."""
    total = sum(os.times()[:4])
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                said = Path("/proc", child, "stat").read_text()
            except OSError:
                continue
            total += sum(int(field) for field in said.rpartition(")")[2].split()[11:15]) / _TICKS
    return total


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if only := os.environ.get("HPUSHIM_TESTS_ONLY"):
        order = {test: place for place, test in enumerate(Path(only).read_text().splitlines())}
        whole = {test for test in order if "::" not in test}
        items[:] = [item for item in items if item.nodeid in order or item.nodeid.partition("::")[0] in whole]  # fmt: skip
        files = {test.partition("::")[0]: place for test, place in reversed(order.items())}
        items.sort(key=lambda item: (files[item.nodeid.partition("::")[0]], order.get(item.nodeid, 0)))  # fmt: skip


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _cpu()
    yield
    spent = max(_cpu() - before, 0.0)
    _spent[item.nodeid] += spent
    if (kept := os.environ.get("HPUSHIM_COSTS")) and item.nodeid not in _failed:
        with Path(kept).open("a") as file:
            file.write(f"{spent:.3f}\t{item.nodeid}\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["costs"] = dict(_spent)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    _spent.update(getattr(node, "workeroutput", {}).get("costs", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    files: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for test, spent in _spent.items():
        files[test.partition("::")[0]] += spent  # type: ignore[assignment]
        tests[test.partition("::")[0]] += 1
    if files:
        terminalreporter.write_line(f"{sum(files.values()):8.1f} CPU s in all")
    for file, spent in files.most_common(20):
        terminalreporter.write_line(f"{spent:8.1f} CPU s  {tests[file]:5} tests  {file}")
