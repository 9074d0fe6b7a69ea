"""Measures what the shim costs, in one process, patched and native in turn; prints the figures as JSON.

CPU time of whole pairs: in each pair every call is timed once native and once shimmed, which goes first changes from pair to pair.
``native`` is torch on the emulated HPU with ``"hpu"`` written, without the shim; the emulated operators take about as long
as the CPU's, so the ratios of single calls are those of the shim's own work.

``python tests/bench/shim_cost.py [PAIRS]`` measures the calls; ``--start`` the import and the first activation of this process.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

CALLS = 250
STEPS = 2
PAIRS = 200

Call = Callable[[], Any]


def cpu(function: Call, calls: int) -> float:
    """CPU seconds of one call, over so many."""
    repeated = range(calls)
    start = time.process_time()
    for _ in repeated:
        function()
    return (time.process_time() - start) / calls


def gpt(torch: Any) -> Call:
    """One step of a small GPT on the device: dispatch-bound, as the shim's share is largest there."""
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = (
                part.view(b, t, 4, c // 4).transpose(1, 2)
                for part in self.qkv(self.norm(x)).split(c, 2)
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    device = torch.device("hpu")
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(65, 64), *[Block(64) for _ in range(2)], nn.Linear(64, 65)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randint(0, 65, (4, 33))

    def step() -> None:
        x, y = data[:, :-1].to(device), data[:, 1:].to(device)
        loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def cases(torch: Any) -> dict[str, tuple[Call, Call, int]]:
    """What is compared: name to the native call, the shimmed one, and how many are timed at once."""
    a, host = torch.ones(1, device="hpu"), torch.ones(1)
    model = torch.nn.Linear(4, 4).to("hpu")
    native = torch.device("hpu")
    cuda = "cuda"
    step = gpt(torch)

    def both(call: Call) -> tuple[Call, Call, int]:
        return call, call, CALLS

    return {
        "a + a": both(lambda: a + a),
        "torch.relu(a)": both(lambda: torch.relu(a)),
        "a.view(1)": both(lambda: a.view(1)),
        "torch.empty(1)": both(lambda: torch.empty(1)),
        "torch.empty(1, device=)": (
            lambda: torch.empty(1, device="hpu"),
            lambda: torch.empty(1, device=cuda),
            CALLS,
        ),
        "torch.zeros(1, device=)": (
            lambda: torch.zeros(1, device="hpu"),
            lambda: torch.zeros(1, device=cuda),
            CALLS,
        ),
        "torch.tensor([1.0], device=)": (
            lambda: torch.tensor([1.0], device="hpu"),
            lambda: torch.tensor([1.0], device=cuda),
            CALLS,
        ),
        "host.to(text)": (lambda: host.to("hpu"), lambda: host.to(cuda), CALLS),
        "hpu.to(text), no move": (lambda: a.to("hpu"), lambda: a.to(cuda), CALLS),
        "hpu.to(device object), no move": both(lambda: a.to(native)),
        "hpu.to(dtype), no change": both(lambda: a.to(torch.float32)),
        "host.cuda()": (lambda: host.to("hpu"), lambda: host.cuda(), CALLS),  # noqa: PLW0108
        "hpu.is_cuda": both(lambda: a.is_cuda),
        "model.to(text)": (lambda: model.to("hpu"), lambda: model.to(cuda), CALLS // 5),
        "model.cuda()": (lambda: model.to("hpu"), lambda: model.cuda(), CALLS // 5),  # noqa: PLW0108
        "torch.device(text)": (lambda: torch.device("hpu"), lambda: torch.device(cuda), CALLS),
        'torch.device("cpu")': both(lambda: torch.device("cpu")),
        "GPT step": (step, step, STEPS),
    }


def measure(pairs: int) -> dict[str, dict[str, Any]]:
    """For each case the pairs' CPU seconds per call, native and shimmed."""
    import torch

    import hpushim

    compared = cases(torch)
    times: dict[str, list[list[float]]] = {name: [] for name in compared}
    gc.collect()
    gc.disable()
    for number in range(-2, pairs):  # the first two only warm up
        pair: dict[str, list[float]] = {name: [0.0, 0.0] for name in compared}
        for shimmed in (0, 1) if number % 2 else (1, 0):
            if shimmed:
                hpushim.activate()
            # Patching empties Python's caches. The first ten steps of a GPT fill them again; a program does that once.
            for case in compared.values():
                cpu(case[shimmed], case[2] // 5 + 10)
            for name, case in compared.items():
                pair[name][shimmed] = cpu(case[shimmed], case[2])
            if shimmed:
                hpushim.deactivate()
        if number >= 0:
            for name in compared:
                times[name].append(pair[name])
        if number % 20 == 0:
            gc.collect()
    gc.enable()
    return {name: summary(found) for name, found in times.items()}


def summary(pairs: list[list[float]]) -> dict[str, Any]:
    """Medians in microseconds; of the ratios the median and the middle four fifths."""
    ratios = sorted(shim / bare for bare, shim in pairs if bare > 0)
    tenths = statistics.quantiles(ratios, n=10)
    return {
        "native": 1e6 * statistics.median(bare for bare, _ in pairs),
        "shimmed": 1e6 * statistics.median(shim for _, shim in pairs),
        "ratio": statistics.median(ratios),
        "spread": [tenths[0], tenths[-1]],
        "pairs": len(ratios),
    }


def start_up() -> dict[str, float]:
    """CPU milliseconds of ``import hpushim`` before torch, and of the first activation."""
    os.environ["HPUSHIM"] = "auto"
    start = time.process_time()
    import hpushim

    imported = time.process_time() - start
    hpushim.disarm()
    import torch

    from hpushim.shim import detect

    detect.emulate()
    torch.hpu.init()
    os.environ["HPUSHIM"] = "emulate"
    start = time.process_time()
    hpushim.activate()
    activated = time.process_time() - start
    return {"import_ms": 1e3 * imported, "activate_ms": 1e3 * activated}


def main(arguments: list[str]) -> None:
    """Prints the figures."""
    found = start_up()
    if "--start" in arguments:
        print(json.dumps(found))
        return
    import hpushim

    hpushim.deactivate()
    pairs = next((int(one) for one in arguments if one.isdigit()), PAIRS)
    print(json.dumps(measure(pairs)))


if __name__ == "__main__":
    main(sys.argv[1:])
