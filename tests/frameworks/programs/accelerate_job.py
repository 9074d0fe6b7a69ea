"""A job for ``accelerate launch``, written for CUDA as people write it: every rank prints what it trained."""

from __future__ import annotations

import json
import sys

import torch
from accelerate import Accelerator


def main() -> None:
    torch.manual_seed(5)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(5)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    accelerator = Accelerator(cpu=device == "cpu")
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer = accelerator.prepare(model.to(device), optimizer)
    source = torch.Generator().manual_seed(accelerator.process_index)
    losses = []
    for _ in range(6):
        inputs = torch.randn(8, 16, generator=source).to(device, non_blocking=True)
        labels = torch.randint(0, 4, (8,), generator=source).to(device)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    told = {
        "rank": accelerator.process_index,
        "on_card": bool(loss.is_cuda),
        "backend": torch.distributed.get_backend(),
        "losses": losses,
    }
    sys.stdout.write(f"RANK {json.dumps(told)}\n")
    sys.stdout.flush()
    accelerator.end_training()


if __name__ == "__main__":
    main()
