"""One of two ranks: SyncBatchNorm over hccl, three steps, against BatchNorm over the whole batch on the CPU."""

from __future__ import annotations

import copy

import hpushim.emulator

hpushim.emulator.enable()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

dist.init_process_group("hccl")
rank, half = dist.get_rank(), slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)
torch.manual_seed(0)
whole = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)
)
parted = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole)).to("hpu")
parted = DistributedDataParallel(parted)
images = torch.randn(8, 3, 8, 8)
for model, batch in ((whole, images), (parted, images[half].to("hpu"))):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
for name, value in whole.state_dict().items():
    torch.testing.assert_close(
        parted.module.state_dict()[name].cpu(), value, rtol=1e-4, atol=1e-6, msg=name
    )
print("equal")
