"""Tensors and processes: what may be shared, what workers may do, and what is said where Gaudi would refuse."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from crossed import crossed

REFUSED = r"processes cannot share a Gaudi's memory \(emulated HPU, HPU\d+\); send tensor\.cpu\(\)"


@pytest.mark.parametrize("kind", ["tensor", "parameter", "module"])
def test_sending_device_memory_is_refused_with_the_way_out(kind):
    layer = torch.nn.Linear(2, 2).to("hpu")
    sent = {"tensor": torch.ones(2, device="hpu"), "parameter": layer.weight, "module": layer}[kind]
    with pytest.raises(RuntimeError, match=REFUSED):
        ForkingPickler.dumps(sent)


def test_cpu_tensors_are_shared_as_ever():
    x = torch.zeros(3).share_memory_()
    twin = pickle.loads(ForkingPickler.dumps(x))
    twin[1] = 5
    assert x.tolist() == [0, 5, 0] and x.is_shared()


def script(tmp_path, body: str) -> str:
    """A program that starts processes, as a file: spawned children import it."""
    path = tmp_path / "program.py"
    path.write_text(
        "import os, hpushim.emulator\n"
        "hpushim.emulator.enable(devices=int(os.environ.get('HPUSHIM_DEVICES', '1')))\nimport torch\n"
        "import torch.multiprocessing as mp\nfrom torch.utils.data import DataLoader, Dataset\n"
        + body
    )
    return f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, {str(path)!r}]).returncode)"


SHARED_MODEL = """
def train(model, rank):
    torch.manual_seed(rank)
    mine = torch.nn.Linear(4, 1)
    mine.load_state_dict(model.state_dict())
    mine.to("hpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        mine.zero_grad()
        mine(torch.ones(8, 4, device="hpu")).square().mean().backward()
        for shared, own in zip(model.parameters(), mine.parameters()):
            shared.grad = own.grad.cpu()
        optimizer.step()
        mine.load_state_dict(model.state_dict())

if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    model.share_memory()
    before = model.weight.detach().clone()
    {where}
    context = mp.get_context("{method}")
    workers = [context.Process(target=train, args=(model, rank)) for rank in range(2)]
    for w in workers: w.start()
    for w in workers: w.join()
    assert [w.exitcode for w in workers] == [0, 0]
    out = model(torch.ones(1, 4)).abs().item()
    assert not torch.equal(model.weight, before) and out < 0.5, out
    print("shared")
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_shared_cpu_model_trained_by_processes_that_compute_on_hpu(run, tmp_path, method):
    """Hogwild as a Gaudi could do it: the shared weights on the host, the work on the card."""
    body = SHARED_MODEL.replace("{method}", method).replace("{where}", "pass")
    assert run(script(tmp_path, body), HPUSHIM_DEVICES="2").stdout == "shared\n"


def test_a_model_on_hpu_handed_to_a_process_is_refused(run, tmp_path):
    body = SHARED_MODEL.replace("{method}", "spawn").replace("{where}", 'model.to("hpu")')
    result = run(script(tmp_path, body), check=False)
    assert result.returncode != 0
    assert "cannot share a Gaudi's memory (emulated HPU" in result.stderr


QUEUE = """
def work(queue, back):
    back.put(queue.get() * 2)
    queue.get()  # the memory lives as long as its process

if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=work, args=(queue, back))
    child.start()
    queue.put(torch.arange(3.0, device="hpu").cpu())
    print(back.get(timeout=120).to("hpu").tolist())
    queue.put(None)
    child.join()
"""


def test_queues_carry_cpu_copies(run, tmp_path):
    assert run(script(tmp_path, QUEUE)).stdout == "[0.0, 2.0, 4.0]\n"


LOADER = """
class Rows(Dataset):
    def __init__(self, where): self.where = where
    def __len__(self): return 8
    def __getitem__(self, i): return (torch.full((2,), float(i), device=self.where) + 1).cpu()

if __name__ == "__main__":
    weight = torch.ones(2, device="hpu")
    loader = DataLoader(Rows("{where}"), 4, num_workers=1, multiprocessing_context="{method}", pin_memory=True)
    print(sum((batch.to("hpu") * weight).sum().item() for batch in loader))
"""


def loader(tmp_path, where: str, method: str) -> str:
    return script(tmp_path, LOADER.replace("{where}", where).replace("{method}", method))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_that_leave_the_device_alone(run, tmp_path, method):
    result = run(loader(tmp_path, "cpu", method), HPUSHIM_POLICY="strict")
    assert result.stdout == "72.0\n" and "forked" not in result.stderr


def test_a_spawned_worker_has_a_device_of_its_own(run, tmp_path):
    assert run(loader(tmp_path, "hpu", "spawn"), HPUSHIM_DEVICES="2").stdout == "72.0\n"


@pytest.mark.parametrize("policy", ["observe", "faithful", "strict"])
def test_a_forked_worker_that_touches_the_device(run, tmp_path, policy):
    """A Gaudi is held by one process: told when observing, an error otherwise; with file and line."""
    result = run(loader(tmp_path, "hpu", "fork"), check=False, HPUSHIM_POLICY=policy)
    assert "program.py:10: this process was forked from one that has used hpu" in result.stderr
    assert "emulated HPU, HPU" in result.stderr and "spawn" in result.stderr
    if policy == "observe":
        assert result.stdout == "72.0\n"
    else:
        assert result.returncode != 0 and result.stdout == ""


FREED = """
if __name__ == "__main__":
    x = torch.ones(2, device="hpu")
    del x
    if os.fork() == 0:
        print(torch.ones(2, device="hpu").sum().item(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_a_fork_after_the_last_tensor_is_gone(run, tmp_path):
    """The card stays open, as CUDA stays initialised."""
    result = run(script(tmp_path, f"import os\n{FREED}"), check=False, HPUSHIM_POLICY="faithful")
    assert "this process was forked from one that has used hpu" in result.stderr
    assert result.stdout == ""


def test_a_fork_before_the_device_is_open_may_use_it(run, tmp_path):
    body = SHARED_MODEL.replace("{method}", "fork").replace("{where}", "pass")
    result = run(script(tmp_path, body), HPUSHIM_POLICY="faithful", HPUSHIM_DEVICES="2")
    assert result.stdout == "shared\n"


ONE_AFTER_ANOTHER = """
import subprocess, sys

CHILD = "import habana_frameworks.torch, torch; print(torch.ones(2, device='hpu').sum().item())"
HOLDS = f"{CHILD}; import sys; sys.stdout.flush(); sys.stdin.read()"

def start(code): return subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, stderr=-1, text=True)

if __name__ == "__main__":
    first = start(HOLDS)
    first.stdout.readline()
    print("beside", *start(CHILD).communicate())
    first.kill(), first.wait()
    print("after", start(CHILD).communicate()[0])
"""


@pytest.mark.parametrize(("policy", "devices"), crossed(["observe", "faithful", "strict"], ["1", "2"], rounds=1))  # fmt: skip
def test_a_device_is_held_by_one_process_until_it_ends(run, tmp_path, policy, devices):
    """Nothing is left of a process that was killed."""
    held = script(tmp_path, ONE_AFTER_ANOTHER)
    out = run(held, HPUSHIM_POLICY=policy, HPUSHIM_DEVICES=devices).stdout
    beside, after = out.split("after")
    assert after.strip() == "2.0"
    assert ("2.0" in beside) == (devices == "2" or policy == "observe")
    assert ("Device acquire failed" in beside) == (devices == "1")
