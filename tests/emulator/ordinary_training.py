"""Ordinary training on each generation and mode: prints what the emulated device objects to, line by line.

Two steps each of a small GPT a ResNet, an LSTM and eleven optimizers; with the argument ``compiled`` a GPT through torch.compile.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import hpushim.emulator

os.environ["HPUSHIM_LOG"] = "sites"
hpushim.emulator.enable()

import habana_frameworks.torch.core as htcore  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from hpushim.emulator import ledger, objections  # noqa: E402

KINDS = ("cpu_fallback", "unsupported", "refused_dtype", "demotion", "collective_limit")
HPU = torch.device("hpu")


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.drop = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in parts)
        if length % 2:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
            scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
            y = self.drop(scores.softmax(-1)) @ v
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(batch, length, width)))
        return x + self.mlp(self.after(x))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(65, 32), nn.Embedding(16, 32)
        self.blocks = nn.Sequential(Block(32, 4), Block(32, 4))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 65, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.blocks(self.tokens(ids) + self.places(places))
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, 65), targets.view(-1), ignore_index=-1)


def step(net: nn.Module, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> float:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    htcore.mark_step()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    htcore.mark_step()
    return loss.item()


def gpt(length: int = 15, precision: torch.dtype | None = None) -> None:
    torch.manual_seed(0)
    net = Gpt().to(HPU)
    rule = (
        [p for p in net.parameters() if p.dim() > 1],
        [p for p in net.parameters() if p.dim() < 2],
    )
    optimizer = torch.optim.AdamW(
        [{"params": rule[0], "weight_decay": 0.1}, {"params": rule[1], "weight_decay": 0.0}],
        lr=1e-3,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    ids = torch.randint(0, 65, (2, length + 1))
    for _ in range(2):
        x, y = ids[:, :-1].to(HPU, non_blocking=True), ids[:, 1:].to(HPU)
        with torch.autocast(
            "hpu", dtype=precision or torch.bfloat16, enabled=precision is not None
        ):
            loss = net(x, y)
        step(net, loss, optimizer)
        schedule.step()
    net.eval()
    with torch.no_grad():
        logits = net.head(net.norm(net.blocks(net.tokens(x))))[:, -1, :]
        best, _ = torch.topk(logits, 5)
        logits[logits < best[:, [-1]]] = -float("inf")
        chosen = torch.multinomial(logits.softmax(-1), 1)
        torch.cat((x, chosen), dim=1).cpu()


def gpt_bf16() -> None:
    gpt(14, torch.bfloat16)


def gpt_masked() -> None:
    gpt(14)


class Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.short = nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.one(x)), inplace=True)
        return F.relu(self.norm2(self.two(y)) + self.short(x))


def resnet() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(3, 2, 1),
        Residual(8, 8, 1), Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 10),
    ).to(HPU)  # fmt: skip
    optimizer = torch.optim.SGD(
        net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    right = 0
    for _ in range(2):
        x, y = torch.randn(4, 3, 32, 32).to(HPU), torch.randint(0, 10, (4,)).to(HPU)
        out = net(x)
        step(net, criterion(out, y), optimizer)
        right += (out.argmax(dim=1) == y).sum().item()
    net.eval()
    with torch.no_grad():
        out = net(x)
        _, top = out.topk(5, 1, True, True)
        top.t().eq(y.view(1, -1).expand_as(top.t()))[:5].reshape(-1).float().sum(0).item()


def lstm() -> None:
    torch.manual_seed(0)
    table, body, head = nn.Embedding(50, 16), nn.LSTM(16, 16, 2, dropout=0.1), nn.Linear(16, 50)
    net = nn.ModuleList([table, body, head]).to(HPU)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    hidden = tuple(torch.zeros(2, 4, 16, device=HPU) for _ in range(2))
    for _ in range(2):
        ids = torch.randint(0, 50, (7, 4)).to(HPU)
        hidden = tuple(h.detach() for h in hidden)
        out, hidden = body(table(ids), hidden)
        loss = F.nll_loss(F.log_softmax(head(out).view(-1, 50), dim=1), ids.view(-1))
        step(net, loss, optimizer)


def optimizers() -> None:
    names = [
        "SGD",
        "Adam",
        "AdamW",
        "Adagrad",
        "Adadelta",
        "Adamax",
        "ASGD",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
    ]
    for name in names:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to(HPU)
        optimizer = getattr(torch.optim, name)(net.parameters())
        for _ in range(2):
            step(
                net,
                F.mse_loss(net(torch.randn(4, 8).to(HPU)), torch.ones(4, 1, device=HPU)),
                optimizer,
            )


def compiled() -> None:
    """The same through torch.compile: fused or taken apart, the operators must be as harmless."""
    if os.environ["PT_HPU_LAZY_MODE"] == "1":
        return  # hpu_backend belongs to eager mode
    torch.manual_seed(0)
    net = Gpt().to(HPU)
    run = torch.compile(net, backend="hpu_backend")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    ids = torch.randint(0, 65, (2, 15)).to(HPU)
    for _ in range(2):
        step(net, run(ids, ids), optimizer)


PARTS: dict[str, Callable[[], Any]] = {
    part.__name__: part for part in (gpt, gpt_masked, gpt_bf16, resnet, lstm, optimizers)
}


def objections_of(part: Callable[[], Any], gaudi: str, lazy: str) -> list[str]:
    os.environ.update(HPUSHIM_GAUDI=gaudi, PT_HPU_LAZY_MODE=lazy)
    objections.enforce()
    ledger.reset()
    part()
    return sorted(
        f"{site['kind']} {site['what']} {site['line']} {site['count']}"
        for site in ledger.snapshot()["sites"]
        if site["kind"] in KINDS
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["compiled"]:  # wants a process that began in eager mode
        PARTS = {"compiled": compiled}
    found = {
        f"{gaudi} {'lazy' if lazy == '1' else 'eager'} {name}": objections_of(part, gaudi, lazy)
        for gaudi in ("gaudi1", "gaudi2", "gaudi3")
        for lazy in ("0", "1")
        for name, part in PARTS.items()
    }
    print(json.dumps(found, indent=1))
