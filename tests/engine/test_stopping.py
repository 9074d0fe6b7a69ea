"""Ctrl-C ends a run at once, whatever its children are at."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crossed import EVERY

from hpushim.engine.files import pool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux only")

#: A child that never ends; whoever is stopped once it has begun must not wait for it.
ENDLESS = """
import os, signal, time
from hpushim.engine.files import pool

def endless(item):
    os.kill(os.getppid(), signal.SIGINT)
    while True:
        time.sleep(60)

try:
    for _ in pool.each(endless, [0, 1], [5_000_000, 5_000_000], 2):
        pass
except KeyboardInterrupt:
    import multiprocessing
    for child in multiprocessing.active_children():
        child.join()
    print("stopped")
"""


def test_a_child_that_never_ends_stops_nobody() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "stopped\n", done.stderr


#: The same, whose parent is killed. Its children hold its standard output, which ends when they have ended.
KILLED = """
import os, signal, time
from hpushim.engine.files import pool

def endless(item):
    os.kill(os.getppid(), signal.SIGKILL)
    while True:
        time.sleep(60)

for _ in pool.each(endless, [0, 1], [5_000_000, 5_000_000], 2):
    pass
"""


def test_children_end_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as parent:
        out, _ = parent.communicate(timeout=120)
    assert (out, parent.returncode) == (b"", -signal.SIGKILL)


def test_a_run_that_nobody_reads_to_its_end_ends_its_children() -> None:
    results = pool.each(_process, range(40), [600_000] * 40, 2)
    next(results)
    results.close()
    import multiprocessing

    assert not [child for child in multiprocessing.active_children() if child.is_alive()]


def _sum_of(item: int) -> int:
    """What a child hands on to a child of its own, which has a limit of its own."""

    def limited(number: int) -> tuple[int, bool]:
        return number, signal.getsignal(signal.SIGVTALRM) is not signal.SIG_DFL

    found = [
        each for _, each in pool.each(limited, [item, 1], [5_000_000] * 2, 1, lambda *_: (0, True))
    ]
    assert all(limit for _, limit in found)
    return sum(number for number, _ in found)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("count", [2, 40, 200] if EVERY else [2, 20])
def test_children_may_have_children(jobs: int, count: int) -> None:
    """Several items to a chunk, each with a pool of its own."""
    items = list(range(count))
    found = dict(pool.each(_sum_of, items, [5_000_000] * count, jobs, lambda item, why: -1))
    assert found == {item: item + 1 for item in items}


def _held(item: int) -> bool:
    """Whether what a child came with stays out of the collector's sight, whatever ran in it."""
    before = gc.get_freeze_count()
    for _ in pool.each(_process, [item, 1], [1_000, 1_000], 1):
        pass
    return gc.get_freeze_count() >= before > 1_000


def test_a_run_in_a_child_leaves_what_was_set_aside() -> None:
    was = gc.get_freeze_count()
    found = dict(pool.each(_held, [0, 1], [5_000_000] * 2, 2))
    assert found == {0: True, 1: True}
    assert gc.get_freeze_count() == 0 or was


def test_a_large_file_is_left_to_a_child() -> None:
    """Parsing it takes long and cannot be stopped from within."""
    small = [pid for _, pid in pool.each(_process, [0, 1], [1_000, 1_000])]
    large = [pid for _, pid in pool.each(_process, [0, 1], [1_000, 900_000], 1)]
    assert set(small) == {os.getpid()}
    assert os.getpid() not in large


def _process(item: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("command", ["check", "report", "migrate"])
def test_the_commands_say_that_they_were_stopped(command: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nx = torch.zeros(2).cuda()\n")
    stop = (
        "import sys, hpushim.cli as cli, hpushim.engine.run as run\n"
        "def stopped(*_, **__): raise KeyboardInterrupt\n"
        "run.Run.results = stopped\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", stop, command, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert "hpushim: stopped" in done.stderr
    assert "Traceback" not in done.stderr
