"""What Lightning's page promises on Gaudi, one function each.

Usage: lightning_claims.py cpu|hpu|cuda, where hpu is Lightning up to 2.5.5 with lightning-habana and cuda the shim
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import lightning
import torch
from claims import claim, report
from lightning.fabric import Fabric
from lightning.pytorch.callbacks import DeviceStatsMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

WHERE = sys.argv[1]
KIND = "cpu" if WHERE == "cpu" else "hpu"
NAME = {"cpu": "cpu", "hpu": "hpu", "cuda": "gpu"}[WHERE]


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
        )
        self.losses: list[float] = []

    def _loss(self, batch: Any) -> torch.Tensor:
        inputs, labels = batch
        return torch.nn.functional.cross_entropy(self.net(inputs), labels)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        loss = self._loss(batch)
        self.losses.append(loss.item())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("measured", self._loss(batch))

    def predict_step(self, batch: Any, index: int) -> float:
        return float(self.net(batch[0]).sum())

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class TwoOptimizers(Net):
    automatic_optimization = False

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(self.net[n].parameters(), lr=1e-2) for n in (0, 2)]

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        loss = super().training_step(batch, index)
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()
        return loss


def loader() -> Any:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(64, 8, generator=generator)
    data = torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())
    return torch.utils.data.DataLoader(data, batch_size=8)


def trainer(**options: Any) -> lightning.Trainer:
    usual = {
        "accelerator": NAME, "devices": 1, "max_epochs": 2, "logger": False, "enable_checkpointing": False,
        "enable_progress_bar": False, "enable_model_summary": False,
    }  # fmt: skip
    return lightning.Trainer(**{**usual, **options})


def fit(model: type[Net] = Net, **options: Any) -> list[float]:
    net, use = model(), trainer(**options)
    assert use.strategy.root_device.type == KIND
    use.fit(net, loader(), loader())
    return [*net.losses, float(use.callback_metrics["measured"])]


@claim
def one_device() -> list[float]:
    return fit()


@claim
def devices_are_counted() -> list[float]:
    return fit(devices="auto")


@claim
def accelerator_is_found() -> list[float]:
    return fit(accelerator="cpu" if WHERE == "cpu" else "auto")


@claim
def bfloat16() -> list[float]:
    return fit(precision="bf16-mixed")


@claim
def float16() -> list[float]:
    return fit(precision="bf16-mixed" if WHERE == "cpu" else "16-mixed")


@claim
def clipping_and_accumulation() -> list[float]:
    return fit(gradient_clip_val=0.5, accumulate_grad_batches=2)


@claim
def several_optimizers() -> list[float]:
    return fit(TwoOptimizers)


@claim
def device_statistics() -> list[float]:
    if WHERE == "cpu":
        return fit(max_epochs=1)
    logger = CSVLogger(tempfile.mkdtemp())
    course = fit(callbacks=[DeviceStatsMonitor()], logger=logger, log_every_n_steps=1, max_epochs=1)
    # lightning-habana asks for numbers where the package has none, and logs nothing
    kept = Path(logger.log_dir, "metrics.csv").read_text()
    assert ("DeviceStatsMonitor" in kept) is (WHERE == "cuda")
    return course


@claim
def resuming() -> list[float]:
    folder = tempfile.mkdtemp()
    saving = [ModelCheckpoint(folder, save_last=True)]
    fit(enable_checkpointing=True, default_root_dir=folder, callbacks=saving)
    net = Net()
    trainer(max_epochs=3).fit(net, loader(), loader(), ckpt_path=str(Path(folder, "last.ckpt")))
    return net.losses


@claim
def prediction() -> list[float]:
    net, use = Net(), trainer(max_epochs=1)
    use.fit(net, loader(), loader())
    result: list[float] = use.predict(net, loader())
    return result


@claim
def fabric() -> list[float]:
    use = Fabric(accelerator=NAME, devices=1)
    net = Net().net
    model, optimizer = use.setup(net, torch.optim.AdamW(net.parameters(), lr=1e-2))
    result = []
    for inputs, labels in use.setup_dataloaders(loader()):
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        use.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        result.append(loss.item())
    return result


report()
