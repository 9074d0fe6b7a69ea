"""The last lines of ``hpushim run``: once a run, after everything that the program says, and true."""

from __future__ import annotations

import json
import sys

import pytest

from hpushim.ledgers.story import Run, lines, syncs_a_step

CPU = """
import torch
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 3)).sum().backward()
optimizer.step()
"""
KILLED = """
import os, signal, subprocess, sys
if sys.argv[1:] != ["worker"]:
    subprocess.run([sys.executable, __file__, "worker"])
    sys.exit()
import torch
model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(STEPS):
    model(torch.ones(2, 3).cuda()).sum().backward()
    optimizer.step()
torch.cuda.synchronize()
os.kill(os.getpid(), signal.SIGKILL)
"""
DDP = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(10, 10).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    loss = model(torch.ones(2, 10).cuda()).sum()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        loss.item()
dist.destroy_process_group()
print("done")
"""


def test_three_lines_for_a_training(ran):
    found = ran("gpt")
    assert len(found.story) == 3
    where, stumbles, look = found.story
    operators = found.books["operators"]
    assert f"{operators:,} operators ran on the emulated Gaudi 2, eager mode" in where
    assert f"all {found.books['compute_operators']['hpu']:,} matrix products" in where
    assert "1 host sync a step" in stumbles
    assert f"{found.books['recompilations']} recompilations by numbers that change" in stumbles
    assert "by shapes" not in stumbles
    assert look == "where to look: hpushim ledger ledger.json"
    assert found.stderr.rstrip().endswith(look)


@pytest.mark.parametrize(("ledger", "count"), [("", 1), ("books.json", 2)])
def test_where_nothing_stumbles_no_line_says_so(ledger, count):
    ran = {"operators": 3, "compute_operators": {"hpu": 1, "cpu": 0}, "gaudi": "gaudi2"}
    for failed in (False, True):
        told = lines(Run(ledger=ledger, failed=failed, processes=[ran]))
        assert len(told) == count
        assert not any(line.startswith("on a Gaudi") or ": on a Gaudi: " in line for line in told)


@pytest.mark.parametrize("steps", [0, 3])
def test_workers_that_are_killed_are_not_nothing(start, tmp_path, steps):
    (tmp_path / "train.py").write_text(KILLED.replace("STEPS", str(steps)))
    found = start("train.py")
    assert found.status == 0 and "NOTHING RAN" not in found.stderr
    cut = "1 process with the emulated hpu ended before the totals could be kept, by a signal or os._exit"
    if steps:
        assert f"(at least: {cut}), eager mode" in found.story[0]
        assert "among them all 4 matrix products" in found.story[0], "of two steps, of three"
    else:
        assert found.story[0] == f"it is unknown what ran on hpu: {cut}"


def test_nothing_on_hpu_is_the_loudest_line(start, tmp_path):
    (tmp_path / "train.py").write_text(CPU)
    found = start("train.py")
    assert found.status == 0
    loud, why, todo = found.story
    assert loud.startswith("NOTHING RAN ON HPU: all 2 matrix products")
    assert loud.endswith("aten::addmm at train.py:5"), "the place of the first one"
    assert "the 2 parameters that its optimizer steps lie on the CPU" in why
    assert "how the program selects its device" in todo


def test_a_setting_that_hides_the_device_is_the_reason(start, tmp_path):
    (tmp_path / "train.py").write_text(CPU)
    found = start("train.py", CUDA_VISIBLE_DEVICES="")
    assert "CUDA_VISIBLE_DEVICES= makes the program" in found.story[1]
    assert found.story[2] == "what to do: unset CUDA_VISIBLE_DEVICES"


def test_a_program_that_did_nothing_is_no_alarm(start, tmp_path):
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(2).tolist())\n")
    found = start("train.py")
    assert len(found.story) == 1 and found.story[0].startswith("nothing ran on the emulated hpu")


def test_an_error_stays_the_last_line_where_nothing_was_done(start, tmp_path):
    (tmp_path / "train.py").write_text("import torch\nraise ValueError('boom')\n")
    found = start("train.py")
    assert found.status == 1 and found.stderr.rstrip().endswith("ValueError: boom")
    work = "import torch\ntorch.ones(2).cuda().add(1)\nraise ValueError('boom')\n"
    (tmp_path / "train.py").write_text(work)
    found = start("train.py")
    assert found.status == 1 and "ValueError: boom" in found.stderr and len(found.story) == 2


def test_one_story_for_all_ranks(start, tmp_path):
    (tmp_path / "train.py").write_text(DDP)
    found = start("-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py")
    assert found.status == 0, found.stderr[-3000:]
    assert found.stdout.count("done") == 2
    assert len(found.story) == 3, found.stderr
    assert "in 2 processes" in found.story[0]
    assert "host syncs a step" in found.story[1]
    other = json.loads(found.file.with_name("ledger.json.rank1").read_text())
    syncs = [
        sum(entry["host_syncs"] for entry in books["steps"]["entries"])
        for books in (found.books, other)
    ]
    assert syncs[0] - syncs[1] == 3, (
        "rank 0 alone reads its loss; the last time after the last step"
    )


CHILDREN = """
import torch
import torch.multiprocessing as mp

def work(rank):
    x = torch.ones(4, 4).cuda()
    (x @ x).sum().item()

if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""


def test_children_of_multiprocessing_are_counted(start, tmp_path):
    (tmp_path / "train.py").write_text(CHILDREN)
    found = start("train.py")
    assert "4 operators ran on the emulated Gaudi 2 in 2 processes" in found.story[0], found.stderr
    assert len(list(tmp_path.glob("ledger.json.pid*"))) == 2


def test_quiet_is_quiet(start, tmp_path):
    (tmp_path / "train.py").write_text(CPU)
    assert start("train.py", HPUSHIM_LOG="quiet").stderr == ""


def test_a_run_inside_a_run_tells_nothing_of_its_own(start, tmp_path):
    (tmp_path / "inner.py").write_text("import torch\ntorch.ones(2, device='cuda').add(1)\n")
    command = [sys.executable, "-m", "hpushim", "run", "inner.py"]
    (tmp_path / "outer.py").write_text(
        f"import subprocess\nsubprocess.run({command!r}, check=True)\n"
    )
    found = start("outer.py")
    assert len(found.story) == 2 and "2 operators" in found.story[0], found.stderr


@pytest.mark.parametrize(
    "hpu, cpu, said", [(0, 4, "NOTHING"), (3, 1, "75 % ran on hpu"), (4, 0, "all 4")]
)
def test_shares(hpu, cpu, said):
    totals = {"operators": hpu, "compute_operators": {"hpu": hpu, "cpu": cpu}, "gaudi": "gaudi3"}
    assert said in lines(Run(processes=[totals]))[0]


def test_what_a_gaudi_would_stumble_on_is_named():
    totals = {
        "operators": 9,
        "compute_operators": {"hpu": 9, "cpu": 0},
        "fallback_operators": {"aten::svd": 3, "aten::qr": 4, "aten::lu": 1},
        "recompilations": 5,
        "recompilations_by_number": 2,
        "recompilation_causes": [
            {
                "operator": "aten::mm",
                "differences": [{"kind": "dimension", "argument": "self", "dimension": 0}],
            }
        ],
        "demoted": ["float64 is kept as float32"],
        "refused": [{"code": "HPU118", "text": "float16 tensors are refused on gaudi1"}],
    }
    line = lines(Run(processes=[totals]))[1]
    assert line == (
        "on a Gaudi: 8 calls that run on the CPU there (qr, svd, 1 more), 3 recompilations by shapes that change "
        "(mm, self dimension 0), 2 recompilations by numbers that change, HPU118 float16 tensors are refused on gaudi1, "
        "float64 is kept as float32"
    )


def test_the_first_step_is_no_measure():
    entries = [
        {"steps": 1, "host_syncs": 90},
        {"steps": 2, "host_syncs": 4},
        {"steps": 2, "host_syncs": 2},
    ]
    assert syncs_a_step([{"steps": {"entries": entries}}]) == 1.5
    assert syncs_a_step([{"steps": {"entries": entries[:1]}}, {}]) == 0


@pytest.mark.parametrize("idle", [0, 3])
def test_processes_that_did_nothing_are_not_counted(idle):
    ran = {"operators": 4, "compute_operators": {"hpu": 4, "cpu": 0}, "gaudi": "gaudi2"}
    none = {"operators": 0, "compute_operators": {"hpu": 0, "cpu": 0}, "gaudi": "gaudi2"}
    assert "processes" not in lines(Run(processes=[ran] + [none] * idle))[0]
    assert "in 2 processes" in lines(Run(processes=[ran, ran] + [none] * idle))[0]
