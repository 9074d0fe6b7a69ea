"""A training loop on accelerate as its users write it; prints one line of JSON with the losses.

Usage: accelerate_loop.py cpu|hpu|cuda PRECISION [BACKEND] [FSDP_VERSION]
"""

from __future__ import annotations

import json
import sys

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import set_seed


def main(where: str, precision: str, backend: str = "", sharded: str = "") -> None:
    if where == "cpu" and precision == "fp16":
        precision = "bf16"
    plugin = None
    if sharded and where != "cpu":  # on the CPU DDP is the reference
        plugin = FullyShardedDataParallelPlugin(
            fsdp_version=int(sharded),
            auto_wrap_policy="size_based_wrap",
            min_num_params=100,
            # The optimizer is made before prepare(): of FSDP1's flat parameters it would know nothing.
            use_orig_params=True if sharded == "1" else None,
        )
    accelerator = Accelerator(
        cpu=where == "cpu",
        mixed_precision=precision,
        gradient_accumulation_steps=1 if sharded else 2,
        fsdp_plugin=plugin,
    )
    set_seed(5)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, 10)
    generator = torch.Generator().manual_seed(2)
    data = torch.utils.data.TensorDataset(
        torch.randn(64, 16, generator=generator), torch.randint(0, 4, (64,), generator=generator)
    )
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    if backend:
        model = torch.compile(model, backend=backend)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses = []
    for _ in range(2):
        for inputs, labels in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.cross_entropy(model(inputs), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach().reshape(1)).mean().item())
    state = accelerator.get_state_dict(model)
    weights = [round(p.double().sum().item(), 9) for p in state.values()]
    if accelerator.is_main_process:
        ready = torch.distributed.is_initialized()
        result = {
            "device": str(accelerator.device.type),
            "parameters": sorted({p.device.type for p in model.parameters()}),
            "backend": torch.distributed.get_backend() if ready else None,
            "processes": accelerator.num_processes,
            "losses": losses,
            "weights": weights,
        }
        sys.stdout.write(f"RESULT {json.dumps(result)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
