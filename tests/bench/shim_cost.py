"""Measures what the shim costs, in one process, patched and native in turn; prints ratios and times as JSON.

CPU time, the smallest of several interleaved rounds. ``native`` is torch on the emulated HPU with ``"hpu"`` written, without the
shim; the emulated operators take about as long as the CPU's, so the ratios of single calls are those of the shim's own work.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

CALLS = 3000
ROUNDS = 9
STEPS = 15


def cpu(function: Callable[[], Any], calls: int) -> float:
    """CPU seconds for so many calls, without the collector."""
    repeated = range(calls)
    gc.disable()
    start = time.process_time()
    for _ in repeated:
        function()
    spent = time.process_time() - start
    gc.enable()
    return spent / calls


def gpt(torch: Any) -> Callable[[], Any]:
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


def main() -> None:
    """Prints the figures."""
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
    first = time.process_time() - start
    hpushim.deactivate()
    if sys.argv[1:] == ["--start"]:
        print(json.dumps(_start_up(imported, first)))
        return

    a = torch.ones(1, device="hpu")
    host = torch.ones(1)
    native, shimmed = torch.device("hpu"), "cuda"
    step = gpt(torch)
    cases: dict[str, tuple[Callable[[], Any], Callable[[], Any], int]] = {
        "add": (lambda: a + a, lambda: a + a, CALLS),
        "empty(1)": (lambda: torch.empty(1), lambda: torch.empty(1), CALLS),
        "zeros(device=)": (
            lambda: torch.zeros(1, device="hpu"),
            lambda: torch.zeros(1, device=shimmed),
            CALLS,
        ),
        "tensor(device=)": (
            lambda: torch.tensor([1.0], device="hpu"),
            lambda: torch.tensor([1.0], device=shimmed),
            CALLS,
        ),
        "host.to()": (lambda: host.to("hpu"), lambda: host.to(shimmed), CALLS),
        "hpu.to()": (lambda: a.to("hpu"), lambda: a.to(shimmed), CALLS),
        "hpu.to(device object)": (lambda: a.to(native), lambda: a.to(native), CALLS),
        "device()": (lambda: torch.device("hpu"), lambda: torch.device(shimmed), CALLS),
    }
    best = {name: [float("inf"), float("inf")] for name in [*cases, "GPT step"]}
    for _ in range(ROUNDS):
        for which in (0, 1):
            if which:
                hpushim.activate()
            for name, (bare, ours, calls) in cases.items():
                cpu(ours if which else bare, calls // 10 + 1)
                best[name][which] = min(best[name][which], cpu(ours if which else bare, calls))
            for _ in range(STEPS):
                best["GPT step"][which] = min(best["GPT step"][which], cpu(step, 1))
            if which:
                hpushim.deactivate()
    ratios = {name: round(shim / bare, 3) for name, (bare, shim) in best.items()}
    micro = {name: [round(1e6 * value, 2) for value in pair] for name, pair in best.items()}
    start_up = _start_up(imported, first)
    print(json.dumps({"ratios": ratios, "microseconds": micro, **start_up}))


def _start_up(imported: float, first: float) -> dict[str, Any]:
    return {
        "import_ms": round(1000 * imported, 2),
        "activate_ms": round(1000 * first, 2),
    }


if __name__ == "__main__":
    main()
