"""A DeepSpeed engine at one stage of ZeRO, with a checkpoint saved and read again: ``deepspeed_zero.py WHERE STAGE FOLDER``.

On the CPU it is torch alone, DistributedDataParallel with AdamW, which is what the engine has to compute.
"""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist

where, stage, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SETTINGS = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_clipping": 0.0,  # its default is 1.0
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True, "weight_decay": 0.0}},
    "zero_optimization": {"stage": stage},
}


def net() -> torch.nn.Module:
    """The same model every time."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def batch(number: int) -> torch.Tensor:
    """A batch of its own for each rank."""
    source = torch.Generator().manual_seed(10 * number + dist.get_rank())
    return torch.randn(4, 8, generator=source)


def plain() -> dict[str, object]:
    """Torch alone."""
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    losses = []
    for number in range(4):
        loss = model(batch(number)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": [*losses, losses[-1]]}


def engines() -> dict[str, object]:
    """Two engines, the second from the checkpoint of the first."""
    import deepspeed

    def made() -> deepspeed.DeepSpeedEngine:
        model = net()
        return deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=SETTINGS
        )[0]

    def step(engine: deepspeed.DeepSpeedEngine, number: int) -> float:
        loss = engine(batch(number).to(engine.device)).pow(2).mean()
        engine.backward(loss)
        engine.step()
        return loss.item()

    deepspeed.init_distributed("nccl" if where == "cuda" else "hccl")
    first = made()
    losses = [step(first, number) for number in range(3)]
    first.save_checkpoint(folder, tag="kept")
    losses.append(step(first, 3))
    second = made()
    second.load_checkpoint(folder, tag="kept")
    losses.append(step(second, 3))
    kinds = sorted({weight.device.type for weight in first.module.parameters()})
    chosen = type(deepspeed.accelerator.get_accelerator()).__name__
    return {"losses": losses, "parameters": kinds, "accelerator": chosen}


result = plain() if where == "cpu" else engines()
if dist.get_rank() == 0:
    print("RESULT " + json.dumps(result))
