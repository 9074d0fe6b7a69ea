"""A small ResNet for CUDA: constant shapes, or with --short-batch a last batch of another size."""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, wider, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width, wider, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wider)
        self.conv2 = nn.Conv2d(wider, wider, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(wider)
        self.short = nn.Sequential()
        if stride != 1 or width != wider:
            self.short = nn.Sequential(nn.Conv2d(width, wider, 1, stride), nn.BatchNorm2d(wider))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.blocks = nn.Sequential(
            Block(8, 8, 1), Block(8, 8, 1), Block(8, 16, 2), Block(16, 16, 1), Block(16, 32, 2)
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        y = self.blocks(self.stem(x))
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short-batch", action="store_true")
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ResNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(args.steps):
        size = 3 if args.short_batch and step == args.steps - 1 else 8
        x = torch.randn(size, 3, 16, 16).to(device)
        y = torch.randint(0, 10, (size,)).to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 3 == 0:
            print(step, loss.item())
    torch.save(model.state_dict(), "resnet.pt")


main()
