"""A small GAN for CUDA: two models, two optimizers, constant shapes."""

from __future__ import annotations

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda"
make = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh()).to(device)
assess = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)
of_make = torch.optim.Adam(make.parameters(), lr=2e-4)
of_judge = torch.optim.Adam(assess.parameters(), lr=2e-4)
criterion = nn.BCEWithLogitsLoss()
for _step in range(4):
    real = torch.randn(8, 16).to(device)
    ones, zeros = torch.ones(8, 1, device=device), torch.zeros(8, 1, device=device)
    fake = make(torch.randn(8, 8, device=device))
    of_judge.zero_grad()
    loss = criterion(assess(real), ones) + criterion(assess(fake.detach()), zeros)
    loss.backward()
    of_judge.step()
    of_make.zero_grad()
    cheat = criterion(assess(fake), ones)
    cheat.backward()
    of_make.step()
print(loss.item(), cheat.item())
