"""Layers of several sizes that all run on one line, and the same layer at two ranks: constant shapes throughout."""

from __future__ import annotations

import torch
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(
    [nn.Linear(8, 8), nn.Linear(8, 12), nn.Linear(12, 12), nn.Linear(12, 4)]
).cuda()
pools = [nn.Conv1d(3, 3, 3, padding=1).cuda(), nn.Conv1d(3, 3, 3, padding=1, stride=2).cuda()]
shared = nn.Linear(4, 4).cuda()
parameters = [
    *layers.parameters(),
    *shared.parameters(),
    *(p for one in pools for p in one.parameters()),
]
optimizer = torch.optim.SGD(parameters, lr=0.1)
for _ in range(5):
    x = torch.randn(6, 8).cuda()
    for layer in layers:
        x = torch.relu(layer(x))
    y = torch.randn(2, 3, 16).cuda()
    for pool in pools:
        y = torch.tanh(pool(y))
    z = shared(x) + shared(x.view(2, 3, 4)).flatten(0, 1)
    loss = z.sum() + y.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
