"""What every test needs, in whatever way the suite was started."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crossed
import hypothesis
import pytest
import warm

# A job that a script starts in the background ignores Ctrl-C, or the end of its terminal, and so do all its children: the tests of
# stopping would wait, and nothing that ignores a signal is served by a fork.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)

# Images set these. Each of hundreds of processes would compile all of hpushim anew, and write line by line.
for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
    os.environ.pop(name, None)
sys.dont_write_bytecode = False
# What a test finds is found by the rules that it has, not by those of a run before.
os.environ["HPUSHIM_CACHE"] = "0"

# How long an example takes is nothing that a test asks: where others work, any of them may be slow once.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

#: Where the long files are. They begin, in this order, and the short ones fill up what is left of the workers' time.
LONG = (
    "gaudi_machine", "emulator", "prove", "projects", "shim", "hostile", "rules", "test_rules.py",
    "test_cli.py", "test_codes.py", "portfolio", "plan", "test_wording.py", "test_warm.py", "programs", "ledgers",
    "test_packaging.py", "test_commands.py", "test_command.py", "test_rooms.py", "test_messages.py",
)  # fmt: skip
#: One worker runs all files of such a folder: what they share takes longer to make than they take.
TOGETHER = ("gaudi_machine",)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            folder = nodeid.partition("/")[2].partition("/")[0]
            return folder if folder in TOGETHER else str(super()._split_scope(nodeid))

    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not crossed.EVERY and not any(
        "::" in word for word in config.args
    ):  # a command line names those
        items[:] = crossed.thinned(items)
    places = {name: place for place, name in enumerate(LONG)}
    here = Path(__file__).parent
    items.sort(key=lambda item: places.get(item.path.relative_to(here).parts[0], len(LONG)))


@pytest.fixture(scope="module")
def served() -> Iterator[None]:
    """Each Python that a test of this module starts, by whatever code, is forked from the one that holds torch."""
    with warm.serving():
        yield
