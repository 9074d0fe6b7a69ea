"""Tensors of the card that a worker process sends: an error in the parent, however they are sent, and never a wait."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import warm

torch = pytest.importorskip("torch", reason="the tensors are torch's")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300

SCRIPT = """
import sys
import hpushim, torch
import torch.multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
from torch.utils.data import DataLoader, Dataset, IterableDataset

DEVICE = sys.argv[2]

def one(*_):
    return torch.ones(1, device=DEVICE)

def put(queue):
    queue.put(one())

def send(connection):
    connection.send(one())

def collate(batch):
    return one()

class Rows(Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return one()

class Stream(IterableDataset):
    def __iter__(self):
        yield one()

def received(target, receiver, given, closed=None):
    process = context.Process(target=target, args=(given,))
    process.start()
    if closed is not None:
        closed.close()
    try:
        return receiver()
    finally:
        process.join()

def queue():
    q = context.Queue()
    return received(put, q.get, q)

def simple_queue():
    q = context.SimpleQueue()
    return received(put, q.get, q)

def pipe():
    ours, theirs = context.Pipe()
    return received(send, ours.recv, theirs, theirs)

def pool():
    with context.Pool(1) as p:
        return p.map(one, [1])

def pool_later():
    with context.Pool(1) as p:
        return p.apply_async(one).get()

def executor():
    with ProcessPoolExecutor(1, mp_context=context) as p:
        return p.submit(one).result()

def argument():
    process = context.Process(target=put, args=(one(),))
    process.start()

def own_queue():
    q = context.Queue()
    q.put(one())
    return q.get()

WAYS = {
    "rows": lambda: list(DataLoader(Rows(), num_workers=1, multiprocessing_context=context)),
    "stream": lambda: list(DataLoader(Stream(), num_workers=1, multiprocessing_context=context)),
    "collate": lambda: list(DataLoader([1, 2], num_workers=1, multiprocessing_context=context, collate_fn=collate)),
    "queue": queue, "simple queue": simple_queue, "pipe": pipe, "pool": pool, "pool later": pool_later,
    "executor": executor, "own queue": own_queue,
}

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    if sys.argv[1] == "spawn":
        # Each process imports torch anew: one of each kind.
        WAYS = {"rows": WAYS["rows"], "simple queue": simple_queue, "pool": pool, "argument": argument}
    for name, way in WAYS.items():
        try:
            way()
            print(name, "came through")
        except Exception as error:
            if "HPU418" not in str(error):
                print(name, type(error).__name__, error)
    print("end")
"""


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_every_way_ends_in_an_error_in_the_parent(tmp_path: Path, start: str, native: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    done = warm.run(
        [sys.executable, "-W", "ignore", str(script), start, "hpu" if native else "cuda"],
        env={**inherited, "HPUSHIM": "emulate", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.stdout.splitlines() == ["end"], done.stdout + done.stderr[-2000:]
