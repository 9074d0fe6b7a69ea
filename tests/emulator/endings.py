"""Two-rank programs that end in the middle of things, and a command that ends many of them under load.

    python tests/emulator/endings.py [--runs 200] [--load 3] [ENDING ...]

Each run starts two processes, lets them end as a script does whose last line is reached, with or without
``destroy_process_group``, and asks of both: exit status 0, nothing about an abort, no wait without end, no process left over.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

LATE_S = 0.8  # how much later rank 1 comes to the collective that rank 0 has left behind
LIMIT_S = 240

PROLOGUE = """
import os, sys, time
import hpushim.emulator
hpushim.emulator.enable()
import torch
import torch.distributed as dist
from torch import nn
rank = int(os.environ["RANK"])
dist.init_process_group({backend!r}, init_method=os.environ["STORE"], rank=rank, world_size=2)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to("hpu")
x = torch.randn(4, 16).to("hpu")
def late():
    if rank == 1: time.sleep({late})
"""
EPILOGUE = {"destroyed": "dist.destroy_process_group()\n", "left": ""}

ENDINGS = {
    "hook": """
def hook(g):
    dist.all_reduce(g.clone(), async_op=True)
x.requires_grad_()
y = net(x)
x.register_hook(hook)
late()
y.sum().backward()
""",
    "hooks_on_parameters": """
kept = []
for p in net.parameters():
    p.register_post_accumulate_grad_hook(lambda p: kept.append(dist.all_reduce(p.grad, async_op=True)))
late()
net(x).sum().backward()
""",
    "collective": """
late()
for _ in range(4):
    dist.all_reduce(torch.ones(1000, device="hpu"), async_op=True)
""",
    "future": """
late()
work = dist.all_reduce(torch.ones(8, device="hpu"), async_op=True)
work.get_future().then(lambda f: [f.value()[0] + 1, dict(a=torch.ones(3, device="hpu"))])
""",
    "coalesced_future": """
late()
with dist._coalescing_manager(async_ops=True) as manager:
    for _ in range(3): dist.all_reduce(torch.ones(5, device="hpu"))
for work in manager.works: work.get_future().then(lambda f: [one * 2 for one in f.value()])
""",
    "modes": """
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
late()
with Mode(), torch.device("hpu"), torch.autograd.graph.save_on_cpu():
    y = net(x).sum()
    dist.all_reduce(torch.ones(8), async_op=True)
    y.backward()
    dist.all_reduce(torch.ones(8), async_op=True)
""",
    "ddp": """
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    model(x).sum().backward()
    optimizer.step()
late()
model(x).sum().backward()
""",
    "ddp_comm_hook": """
model = nn.parallel.DistributedDataParallel(net)
def hook(state, bucket):
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda f: f.value()[0] / 2)
model.register_comm_hook(None, hook)
model(x).sum().backward()
late()
model(x).sum().backward()
""",
    "fsdp2": """
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("hpu", (2,))
for layer in net: fully_shard(layer, mesh=mesh)
fully_shard(net, mesh=mesh)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(x).sum().backward()
optimizer.step()
late()
net(x).sum().backward()
""",
    "compiled": """
model = nn.parallel.DistributedDataParallel(net)
step = torch.compile(model, backend="aot_eager")
step(x).sum().backward()
late()
y = step(x).sum()
net[0].weight.register_hook(lambda g: dist.all_reduce(g.clone(), async_op=True) and None)
y.backward()
""",
    "compiled_backward": """
import torch._dynamo.compiled_autograd as compiled_autograd
def hook(g):
    return g
x.requires_grad_()
x.register_hook(hook)
compiler = torch.compile(backend="eager")
with compiled_autograd._enable(compiler):
    net(x).sum().backward()
net[0].weight.register_hook(lambda g: dist.all_reduce(g.clone(), async_op=True) and None)
late()
net(x).sum().backward()
""",
    "functional": """
import torch.distributed._functional_collectives as funcol
late()
y = funcol.all_reduce(x, "sum", dist.group.WORLD)
z = funcol.all_gather_tensor(x * 2, 0, dist.group.WORLD)
""",
    "groups": """
groups = [dist.new_group([0, 1], backend="hccl") for _ in range(3)]
x.requires_grad_()
x.register_hook(lambda g: [dist.all_reduce(g.clone(), group=one, async_op=True) for one in groups] and None)
late()
net(x).sum().backward()
""",
    "several_backends": """
x.requires_grad_()
x.register_hook(lambda g: [dist.all_reduce(g.clone(), async_op=True), dist.all_reduce(g.cpu(), async_op=True)] and None)
late()
net(x).sum().backward()
""",
    "reference_kept": """
import builtins
builtins.kept = dist.group.WORLD
builtins.hccl = dist.group.WORLD._get_backend(torch.device("hpu"))
builtins.works = [dist.all_reduce(torch.ones(8, device="hpu"), async_op=True) for _ in range(3)]
x.requires_grad_()
x.register_hook(lambda g: builtins.works.append(dist.all_reduce(g.clone(), async_op=True)))
late()
net(x).sum().backward()
""",
    "thread": """
import threading
def work():
    for _ in range(3):
        net(x).sum().backward()
        dist.all_reduce(net[0].weight.grad, async_op=True)
late()
worker = threading.Thread(target=work)
worker.start()
worker.join()
""",
    "autograd_threads": """
torch.autograd.set_multithreading_enabled(True)
x.requires_grad_()
x.register_hook(lambda g: dist.all_reduce(g.clone(), async_op=True) and None)
late()
net(x).sum().backward()
""",
    "at_exit": """
import atexit
atexit.register(lambda: dist.is_initialized() and dist.all_reduce(torch.ones(3, device="hpu")))
late()
dist.all_reduce(torch.ones(3, device="hpu"), async_op=True)
""",
}
BACKENDS = {"several_backends": "cpu:gloo,hpu:hccl"}
BAD = ("terminate called", "Aborted", "PyThreadState", "Fatal Python error", "Segmentation")


@dataclass(frozen=True)
class Run:
    """How one run of an ending went; ``fault`` is empty when it went well."""

    ending: str
    close: str
    fault: str
    seconds: float


def program(ending: str, close: str) -> str:
    """The source of both ranks."""
    backend = BACKENDS.get(ending, "hccl")
    return PROLOGUE.format(backend=backend, late=LATE_S) + ENDINGS[ending] + EPILOGUE[close]


def run(ending: str, close: str, environment: dict[str, str] | None = None) -> Run:
    """Start the two ranks, wait for both, and look at what they leave."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text(program(ending, close))
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "HPUSHIM": "off", "HPUSHIM_LOG": "quiet"}
        variables |= {"STORE": f"file://{folder}/store", **(environment or {})}
        ranks = [
            subprocess.Popen(
                [sys.executable, str(script)],
                env={**variables, "RANK": str(rank)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for rank in range(2)
        ]
        faults = []
        for rank, process in enumerate(ranks):
            fault = _end_of(process, begun + LIMIT_S)
            if fault:
                faults.append(f"rank {rank}: {fault}")
        left = [process.pid for process in ranks if _group_lives(process.pid)]
        for group in left:
            os.killpg(group, signal.SIGKILL)
        if left and not faults:
            faults.append(f"{len(left)} ranks left processes behind")
    return Run(ending, close, "; ".join(faults), time.monotonic() - begun)


def _end_of(process: subprocess.Popen[str], deadline: float) -> str:
    try:
        _, errors = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
        return f"hung; {errors[-300:]}"
    said = [word for word in BAD if word in errors]
    if process.returncode != 0 or said:
        return f"status {process.returncode}; {errors[-600:]}"
    return ""


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def burners(count: int) -> list[subprocess.Popen[bytes]]:
    """Processes that keep the machine's cores busy."""
    code = "while True: sum(range(10000))"
    return [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]


def main() -> int:
    """Run the endings in turn, with and without destroying the group; 1 if any run went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endings", nargs="*", choices=[*ENDINGS, []], default=[])
    parser.add_argument("--runs", type=int, default=2 * len(ENDINGS))
    parser.add_argument("--load", type=int, default=0, help="busy processes beside the ranks")
    given = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    load = burners(given.load)
    try:
        plan = itertools.cycle(itertools.product(given.endings or ENDINGS, EPILOGUE))
        for ending, close in itertools.islice(plan, given.runs):
            done = run(ending, close)
            kind = "hung" if "hung" in done.fault else "failed" if done.fault else "ended well"
            counts[kind, f"{ending}, group {close}"] += 1
            sys.stdout.write(
                f"{ending}, group {close}: {kind} ({done.seconds:.1f} s) {done.fault}\n"
            )
            sys.stdout.flush()
    finally:
        for one in load:
            one.kill()
            one.wait()
    kinds = Counter()
    for (kind, _), count in counts.items():
        kinds[kind] += count
    sys.stdout.write(f"{given.runs} runs of two ranks: {dict(kinds)}\n")
    return int(set(kinds) != {"ended well"})


if __name__ == "__main__":
    sys.exit(main())
