"""Lightning with strategy="ddp" in processes that it starts itself; rank 0 prints one line of JSON.

Usage: lightning_ddp.py cpu|cuda|hpu PRECISION DEVICES, where hpu is Lightning up to 2.5.5 with lightning-habana
"""

from __future__ import annotations

import json
import sys
from typing import Any

import lightning
import torch


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
        )
        self.losses: list[float] = []

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        inputs, labels = batch
        loss = torch.nn.functional.cross_entropy(self.net(inputs), labels)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class Watch(lightning.Callback):
    """Notes the backend while the processes still stand together."""

    backend = ""

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.backend = torch.distributed.get_backend()


def main(where: str, precision: str, devices: str) -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(64, 8, generator=generator)
    data = torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())
    net, watch = Net(), Watch()
    trainer = lightning.Trainer(
        accelerator={"cpu": "cpu", "cuda": "gpu", "hpu": "hpu"}[where],
        precision="bf16-mixed" if where == "cpu" and precision == "16-mixed" else precision,
        strategy="hpu_parallel" if where == "hpu" else "ddp",
        devices=int(devices),
        max_epochs=2,
        callbacks=[watch],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(net, torch.utils.data.DataLoader(data, batch_size=8))
    if trainer.is_global_zero:
        result = {
            "device": trainer.strategy.root_device.type,
            "backend": watch.backend,
            "losses": net.losses,
            "weights": [p.detach().double().sum().item() for p in net.parameters()],
        }
        sys.stdout.write(f"RESULT {json.dumps(result)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
