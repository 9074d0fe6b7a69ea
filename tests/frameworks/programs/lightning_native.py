"""Lightning and Fabric from 2.5.6 on, as people write them for CUDA: what ``migrate`` is given; prints one line of JSON.

Usage: lightning_native.py trainer|fabric DEVICES PRECISION
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from lightning import Fabric, LightningModule, Trainer


def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


def loader() -> Any:
    inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())
    return torch.utils.data.DataLoader(data, batch_size=8)


class Net(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = network()
        self.losses: list[float] = []

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        inputs, labels = batch
        loss = torch.nn.functional.cross_entropy(self.net(inputs), labels)
        self.losses.append(loss.item())
        self.log("average", loss, sync_dist=True, on_epoch=True, on_step=False)
        length = torch.tensor(len(inputs), device=self.device)
        self.log("length", length, sync_dist=True, on_epoch=True, on_step=False)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def with_trainer(devices: int, precision: Any) -> dict[str, Any] | None:
    net = Net()
    trainer = Trainer(
        accelerator="gpu", devices=devices, precision=precision, max_epochs=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(net, loader())
    if not trainer.is_global_zero:
        return None
    logged = {name: value.item() for name, value in trainer.callback_metrics.items()}
    return {"device": trainer.strategy.root_device.type, "losses": net.losses, **logged}


def with_fabric(devices: int, precision: Any) -> dict[str, Any] | None:
    fabric = Fabric(devices=devices, precision=precision)
    fabric.launch()
    net = network()
    model, optimizer = fabric.setup(net, torch.optim.AdamW(net.parameters(), lr=1e-2))
    losses = []
    for inputs, labels in fabric.setup_dataloaders(loader()):
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    average = fabric.all_reduce(loss).item()  # type: ignore[union-attr]
    if not fabric.is_global_zero:
        return None
    return {"device": fabric.device.type, "losses": losses, "average": average}


if __name__ == "__main__":
    way, devices, precision = sys.argv[1:4]
    run = with_trainer if way == "trainer" else with_fabric
    result = run(int(devices), precision)
    if result is not None:
        sys.stdout.write(f"RESULT {json.dumps(result)}\n")
