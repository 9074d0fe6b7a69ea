"""Children, workers and launchers on a Gaudi machine."""

from __future__ import annotations

import pytest

WORK = """
import hpushim
import os, subprocess, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        assert torch.cuda.is_available()
        return torch.full((2,), float(i))

def child(rank=0):
    assert torch.ones(1, device="cuda").device.type == "hpu"
    assert hpushim.status()["device"] == "gaudi"
    print("child", flush=True)

if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "plain"
    if kind == "spawn":
        mp.spawn(child, nprocs=2)
    elif kind in ("fork", "forkserver"):
        process = mp.get_context(kind).Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0, process.exitcode
    elif kind.startswith("workers-"):
        loader = DataLoader(Rows(), 2, num_workers=2, pin_memory=True, multiprocessing_context=kind[8:])
        assert sum(batch.cuda(non_blocking=True).sum().item() for batch in loader) == 12
        print("child")
    elif kind == "script":
        subprocess.run([sys.executable, __file__], check=True)
    elif "RANK" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        assert "hccl" in str(dist.group.WORLD._get_backend(torch.device("hpu")).name()).lower()
        x = torch.ones(2, device="cuda") * (dist.get_rank() + 1)
        dist.all_reduce(x)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1).cuda(), device_ids=[int(os.environ["LOCAL_RANK"])])
        model(x).sum().backward()
        sys.stdout.write(f"rank {dist.get_rank()} {x.tolist()}\\n")  # in one piece, though both ranks write to one pipe
        sys.stdout.flush()
        dist.destroy_process_group()
    else:
        child()
"""

KINDS = {
    "spawn": 2, "fork": 1, "forkserver": 1, "workers-fork": 1, "workers-spawn": 1, "script": 1,
}  # fmt: skip


@pytest.fixture
def project(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(WORK)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_children_of_every_kind(machine, project, kind: str) -> None:
    done = machine.run("python", project, kind, cwd=project.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split().count("child") == KINDS[kind]


@pytest.mark.parametrize("kind", ["spawn", "script", "workers-spawn"])
def test_children_of_a_run(machine, project, kind: str) -> None:
    project.write_text(
        WORK.replace("import hpushim\n", "", 1).replace(
            "    assert hpushim.status", "    import hpushim\n    assert hpushim.status"
        )
    )
    done = machine.run("hpushim", "run", project, kind, cwd=project.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split().count("child") == KINDS[kind]
    assert done.stderr.count("CUDA calls run on HPU") == 1, done.stderr


LAUNCHERS = {
    "torchrun": ["torchrun", "--standalone", "--nproc-per-node", "2", "train.py"],
    "python -m": ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"],
    "hpushim run torchrun": ["hpushim", "run", "torchrun", "--standalone", "--nproc-per-node", "2", "train.py"],
}  # fmt: skip


@pytest.mark.parametrize("how", LAUNCHERS)
def test_two_ranks_on_two_cards(machine, project, how: str) -> None:
    done = machine.run(*LAUNCHERS[how], cwd=project.parent, PRETEND_CARDS="2")
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))
    assert ranks == ["rank 0 [3.0, 3.0]", "rank 1 [3.0, 3.0]"]
