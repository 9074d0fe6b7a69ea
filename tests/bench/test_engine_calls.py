"""What looking at a program costs, counted in calls of Python's functions for each node of its tree: the same on every machine, however busy.

A rule that asks a dear question of everything, instead of where the answer matters, is seen here. The bounds are some hundredths above what
was counted on Python 3.11 when they were written; later versions call less, since comprehensions are no functions there.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from hpushim.engine import one_file
from hpushim.engine.context import Context
from hpushim.matrix import load
from hpushim.model import Target

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "tests/projects/char_gpt/before"
#: Loops that run a model, masks, values that are read, branches by options, helpers: what most rules have to tell apart.
SAMPLER = """
import argparse
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, root, size=32, split="train"):
        self.names = [f"{root}/{split}/{i}.npy" for i in range(1000)]
        self.size = size

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        image = np.load(self.names[index])
        top, left = np.random.randint(0, image.shape[0] - self.size, 2)
        image = image[top : top + self.size, left : left + self.size]
        label = int(image.mean() > 0.5)
        return torch.from_numpy(image).float(), label


class Block(nn.Module):
    def __init__(self, width, groups=8):
        super().__init__()
        self.norm = nn.GroupNorm(groups, width)
        self.convolution = nn.Conv2d(width, width, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(width))
        self.register_buffer("counts", torch.zeros(width))

    def forward(self, x, mask=None):
        y = self.convolution(torch.relu(self.norm(x)))
        if mask is not None:
            y = y.masked_fill(mask < 0.5, 0.0)
            y[mask > 0.9] = 1.0
        if self.training:
            self.counts += y.detach().abs().mean((0, 2, 3))
        return x + self.scale[None, :, None, None] * y


class Denoiser(nn.Module):
    def __init__(self, width=64, depth=4, kind="linear"):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 3) if kind == "linear" else nn.Conv2d(width, 3, 1)
        self.kind = kind

    def forward(self, x, t, mask=None):
        for number, block in enumerate(self.blocks):
            x = block(x, mask if number % 2 else None)
        return self.head(x.mean((2, 3)) if self.kind == "linear" else x)


def make_betas(steps, schedule):
    if schedule == "linear":
        return torch.linspace(1e-4, 0.02, steps)
    if schedule == "cosine":
        t = torch.arange(steps + 1) / steps
        f = torch.cos((t + 0.008) / 1.008 * torch.pi / 2) ** 2
        return torch.clip(1 - f[1:] / f[:-1], 0, 0.999)
    raise ValueError(schedule)


@torch.no_grad()
def sample(model, shape, betas, device):
    alphas = torch.cumprod(1 - betas, 0).to(device)
    x = torch.randn(shape, device=device)
    for i in reversed(range(len(betas))):
        t = torch.full((shape[0],), i, device=device, dtype=torch.long)
        noise = model(x, t)
        x = (x - betas[i] / (1 - alphas[i]).sqrt() * noise) / (1 - betas[i]).sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x.clamp(-1, 1)


def accuracy(output, target, topk=(1, 5)):
    with torch.no_grad():
        _, predicted = output.topk(max(topk), 1)
        correct = predicted.t().eq(target.view(1, -1).expand_as(predicted.t()))
        return [correct[:k].reshape(-1).float().sum(0).mul_(100.0 / len(target)) for k in topk]


def validate(model, loader, criterion, device):
    model.eval()
    losses, hits, confusion = [], 0, np.zeros((3, 3), dtype=int)
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        with torch.no_grad():
            output = model(images, None)
            loss = criterion(output, labels)
        losses.append(loss.item())
        keep = labels != -1
        hits += (output.argmax(1)[keep] == labels[keep]).sum().item()
        for p, q in zip(output.argmax(1).cpu().numpy(), labels.cpu().numpy()):
            confusion[p, q] += 1
        if step % 50 == 0:
            print(f"{step}: {loss.item():.4f} {hits / (step + 1):.2f}")
    return sum(losses) / len(losses), confusion


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--schedule", default="linear")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--optimizer", default="adamw")
    args = parser.parse_args()
    device = torch.device(args.device if torch.cuda.is_available() else "cpu")
    model = Denoiser().to(device)
    if args.compile:
        model = torch.compile(model)
    if args.optimizer == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    elif args.optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    else:
        raise ValueError(args.optimizer)
    criterion = nn.CrossEntropyLoss().cuda()
    loader = DataLoader(Pairs("data"), batch_size=64, shuffle=True, num_workers=4, pin_memory=True)
    betas = make_betas(1000, args.schedule)
    best = 0.0
    for epoch in range(10):
        model.train()
        for images, labels in loader:
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(images, None), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        value, _ = validate(model, loader, criterion, device)
        if value > best:
            best = value
            torch.save({"model": model.state_dict(), "epoch": epoch}, "best.pt")
    images = sample(model, (16, 64, 32, 32), betas, device)
    np.save("images.npy", images.cpu().numpy())


if __name__ == "__main__":
    main()
"""


def _texts() -> dict[str, list[str]]:
    project = [path.read_text(encoding="utf-8") for path in sorted(PROJECT.glob("*.py"))]
    return {"project": project, "sampler": [SAMPLER], "tools": [Path(one_file.__file__).read_text(encoding="utf-8")]}  # fmt: skip


def counted(work: Callable[[], object]) -> Counter[tuple[str, str]]:
    """How often each function is called, by its file and name."""
    found: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[Path(frame.f_code.co_filename).name, frame.f_code.co_name] += 1

    work()  # what is loaded and kept once is no cost of a file
    before = sys.getprofile()
    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return found


@pytest.mark.parametrize(("name", "most"), [("project", 16.9), ("sampler", 18.9), ("tools", 1.1)])
def test_a_program_is_looked_at_in_so_many_calls_for_a_node(name: str, most: float) -> None:
    texts, context = _texts()[name], Context(Target(), load())
    nodes = sum(1 for text in texts for _ in ast.walk(ast.parse(text)))
    calls = counted(lambda: [one_file.examine(text, "python", "a.py", context) for text in texts])
    dear = ", ".join(f"{count} {where}:{what}" for (where, what), count in calls.most_common(12))
    assert calls.total() / nodes < most, f"{calls.total()} calls for {nodes} nodes, of which {dear}"


def test_four_times_the_lines_of_a_script_are_four_times_the_work() -> None:
    context = Context(Target(), load())

    def calls(lines: int) -> int:
        text = "".join(f"CUDA_VISIBLE_DEVICES={n} python a.py --backend nccl # x\n" for n in range(lines))  # fmt: skip
        return counted(lambda: one_file.settle(text, "shell", "a.sh", context)).total()

    assert calls(200) < 5 * calls(50)


def test_conditions_of_values_by_many_ways_are_soon_answered() -> None:
    """Thirty choices one behind the other are a thousand million ways."""
    context = Context(Target(), load())

    def calls(choices: int) -> int:
        lines = "".join(f"    a{n + 1} = a{n} if c else a{n}\n" for n in range(choices))
        text = f"import torch\ndef f(c):\n    a0 = False\n{lines}    if a{choices}:\n        torch.cuda.nvtx.range_push('a').x()\n        torch.cuda.amp.custom(1)\n"
        return counted(lambda: one_file.examine(text, "python", "a.py", context)).total()

    assert calls(24) < 3 * calls(12)
