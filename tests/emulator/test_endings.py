"""Runs of two ranks that end inside collectives, hooks and callbacks: they end well (endings.py runs many of them)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import endings
import pytest
from environments import plain_environment

# Two of those that hung or aborted before works were issued without Python's state and groups were closed at exit.
OFTEN = ["hook", "reference_kept"]


@pytest.fixture
def run(start):
    """A process of its own: how it ends is the subject."""
    return start


@pytest.mark.parametrize("ending", [OFTEN[0], pytest.param(OFTEN[1], marks=pytest.mark.slow)])
def test_a_run_that_ends_in_the_middle_ends_well(ending):
    assert endings.run(ending, "left", plain_environment()).fault == ""


@pytest.mark.slow
def test_the_hook_that_hung_one_run_in_three_ends_well_under_load():
    load = endings.burners(3)
    try:
        faults = [endings.run("hook", "left", plain_environment()).fault for _ in range(5)]
    finally:
        for one in load:
            one.kill()
            one.wait()
    assert faults == [""] * 5


@pytest.mark.slow
@pytest.mark.parametrize("ending", [name for name in endings.ENDINGS if name not in OFTEN])
def test_further_endings(ending):
    assert endings.run(ending, "left", plain_environment()).fault == ""


def test_a_group_of_a_process_that_forked_does_not_hold_the_child(run):
    """The child has the group and none of its threads."""
    code = """
    import hpushim.emulator
    hpushim.emulator.enable()
    import os, sys, torch
    import torch.distributed as dist
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(2, device="hpu"))
    child = os.fork()
    if child == 0:
        sys.exit(7)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
    """
    assert run(code).stdout == "7\n"


def test_collectives_after_the_end_say_so(run):
    """An exit handler that was there before the emulator runs after the groups have ended."""
    code = """
    import atexit
    def late():
        import torch, torch.distributed as dist
        try:
            group.allreduce([torch.ones(2, device="hpu")])
        except RuntimeError as error:
            print(error)
    atexit.register(late)
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch, torch.distributed as dist
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    group = dist.group.WORLD
    """
    said = run(code).stdout
    assert "this group has ended, since the process is ending" in said
    assert "dist.destroy_process_group()" in said


def test_a_wait_for_ranks_that_never_come_can_be_broken_off(tmp_path):
    """Ctrl-C ends a process whose collective nobody joins."""
    code = (
        endings.PROLOGUE.format(backend="hccl", late=0)
        + """
dist.all_reduce(torch.ones(2, device="hpu"))
if rank == 0:
    dist.all_reduce(torch.ones(2, device="hpu"), async_op=True)
    print("ends", flush=True)
else:
    time.sleep(600)
"""
    )
    ranks = []
    for rank in "01":
        env = plain_environment(RANK=rank, STORE=f"file://{tmp_path}/store", HPUSHIM_LOG="")
        ranks.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        assert ranks[0].stdout.readline() == "ends\n"
        assert (
            ranks[0]
            .stderr.readline()
            .startswith("hpushim: the program ended with unfinished collectives")
        )
        assert ranks[0].poll() is None  # rank 1 might still come
        os.kill(ranks[0].pid, signal.SIGINT)
        assert ranks[0].wait(timeout=120) == 0
    finally:
        for one in ranks:
            one.kill()
            one.wait()
