"""What the emulated HPU costs against plain CPU torch: process CPU time, one thread, median of alternating pairs.

``python tests/bench/emulator_cost.py [PAIRS]`` prints one line per workload; ``--memory [STEPS]`` runs a small loop and
prints the device's and the process's memory as it goes. All figures are of the emulator, none of a Gaudi.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import hpushim.emulator

hpushim.emulator.enable()

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from hpushim.emulator import device  # noqa: E402

Step = Callable[[], None]
ALLOWED = {"tiny add": 3.0, "ResNet-like step": 1.05, "GPT step": 1.2, "LSTM step": 4.5, "GAN step": 1.3, "GPT step, ledger on": 1.5}  # fmt: skip


class Residual(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.one, self.two = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm_one, self.norm_two = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm_one(self.one(x)))
        return F.relu(x + self.norm_two(self.two(y)))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (
            p.view(b, t, self.heads, -1).transpose(1, 2)
            for p in self.qkv(self.before(x)).split(c, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.mlp(self.after(x))


def resnet(where: str) -> Step:
    torch.manual_seed(0)
    blocks = [Residual(16) for _ in range(8)]
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    net = nn.Sequential(net, nn.Linear(16, 10)).to(where)
    images, labels = torch.randn(8, 3, 32, 32).to(where), torch.randint(0, 10, (8,)).to(where)
    return training_step(
        net, images, labels, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    )


def gpt(where: str) -> Step:
    torch.manual_seed(0)
    blocks = [Attention(128, 4) for _ in range(4)]
    net = nn.Sequential(nn.Embedding(65, 128), *blocks, nn.LayerNorm(128), nn.Linear(128, 65)).to(
        where
    )
    ids = torch.randint(0, 65, (8, 64))
    return training_step(
        net, ids.to(where), ids.to(where), torch.optim.AdamW(net.parameters(), lr=1e-3)
    )


class Tagger(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.words = nn.Embedding(65, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 65)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.words(x))[0])


def lstm(where: str) -> Step:
    """For the CPU torch has one kernel, mkldnn; another device computes each step of the sequence with small operators."""
    torch.manual_seed(0)
    net, ids = Tagger(128).to(where), torch.randint(0, 65, (8, 32)).to(where)
    return training_step(net, ids, ids, torch.optim.Adam(net.parameters(), lr=1e-3))


def gan(where: str) -> Step:
    """One step of the discriminator, on real and made images, and one of the generator."""
    torch.manual_seed(0)
    maker = nn.Sequential(
        nn.ConvTranspose2d(32, 32, 4), nn.BatchNorm2d(32), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh(),
    ).to(where)  # fmt: skip
    judge = nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.LeakyReLU(0.2), nn.Conv2d(32, 1, 4), nn.Flatten(),
    ).to(where)  # fmt: skip
    made, judged = (torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (maker, judge))  # fmt: skip
    images = torch.randn(16, 3, 16, 16).to(where)
    true, false = torch.ones(16, 1, device=where), torch.zeros(16, 1, device=where)

    def step() -> None:
        fake = maker(torch.randn(16, 32, 1, 1, device=where))
        judged.zero_grad()
        (F.binary_cross_entropy_with_logits(judge(images), true) + F.binary_cross_entropy_with_logits(judge(fake.detach()), false)).backward()  # fmt: skip
        judged.step()
        made.zero_grad()
        F.binary_cross_entropy_with_logits(judge(fake), true).backward()
        made.step()

    return step


def training_step(
    net: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, optimizer: torch.optim.Optimizer
) -> Step:
    def step() -> None:
        out = net(inputs)
        F.cross_entropy(out.flatten(0, -2), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def tiny(where: str) -> Step:
    x, y = torch.ones(4, device=where), torch.ones(4, device=where)

    def step() -> None:
        for _ in range(5000):
            x + y

    return step


def seconds(step: Step) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def ratio(make: Callable[[str], Step], pairs: int) -> tuple[float, float, float]:
    """Median over pairs of hpu/cpu, and the best CPU and hpu times in seconds."""
    cpu, hpu = make("cpu"), make("hpu")
    for _ in range(3):
        cpu()
        hpu()
    times = [(seconds(cpu), seconds(hpu)) for _ in range(pairs)]
    return (
        statistics.median(b / a for a, b in times),
        min(a for a, _ in times),
        min(b for _, b in times),
    )


def record_everything(on: bool) -> None:
    native = device.load()
    native.record_sites(on, False)
    if on:
        native.watch_compute()


def costs(pairs: int) -> None:
    for name, make in (("tiny add", tiny), ("ResNet-like step", resnet), ("GPT step", gpt), ("LSTM step", lstm), ("GAN step", gan)):  # fmt: skip
        show(name, *ratio(make, pairs))
    plain = gpt("cpu")
    watched = gpt("hpu")
    times = []
    for _ in range(pairs + 3):
        record_everything(False)
        a = seconds(plain)
        record_everything(True)
        times.append((a, seconds(watched)))
    times = times[3:]
    show(
        "GPT step, ledger on",
        statistics.median(b / a for a, b in times),
        min(a for a, _ in times),
        min(b for _, b in times),
    )


def show(name: str, found: float, cpu: float, hpu: float) -> None:
    verdict = "within" if found <= ALLOWED[name] else "OVER"
    sys.stdout.write(
        f"{name}: {found:.2f} times the CPU ({verdict} {ALLOWED[name]}; "
        f"best {cpu * 1e3:.2f} ms cpu, {hpu * 1e3:.2f} ms emulated hpu)\n"
    )


def memory(steps: int) -> None:
    net = nn.Linear(8, 8).to("hpu")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for step in range(steps + 1):
        if step % max(1, steps // 10) == 0:
            stats = device.memory_stats()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            sys.stdout.write(
                f"step {step}: {stats['in_use']} bytes in {stats['live']} blocks, process peak {peak} MiB\n"
            )
        net(torch.ones(1 + step % 3, 8).to("hpu")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    if "--memory" in sys.argv:
        memory(*(numbers or [100_000]))
    else:
        costs(*(numbers or [21]))
