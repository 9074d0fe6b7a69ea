import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel

from model import Model

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--dtype", default="float16")
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--accumulate", type=int, default=2)
args = parser.parse_args()

torch.manual_seed(7)
torch.cuda.manual_seed_all(7)
rank = int(os.environ.get("LOCAL_RANK", 0))
parallel = "WORLD_SIZE" in os.environ
on_device = args.device.startswith("cuda") and torch.cuda.is_available()
if on_device:
    torch.cuda.set_device(rank)
device = torch.device("cuda", rank) if on_device else torch.device("cpu")
if parallel:
    dist.init_process_group("nccl" if on_device else "gloo")

model = Model().to(device)
weights = torch.linspace(0.5, 1.5, 32).cuda(rank) if on_device else torch.linspace(0.5, 1.5, 32)
if parallel:
    model = DistributedDataParallel(model, device_ids=[rank] if on_device else None)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
scaler = GradScaler(enabled=on_device and args.dtype == "float16")
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step / 4))
dtype = {"float16": torch.float16, "float32": torch.float32}[args.dtype]
source = torch.Generator().manual_seed(100 + rank)


def batch():
    x = torch.randint(0, 32, (4, 9), generator=source)
    if on_device:
        x = x.pin_memory().to(device, non_blocking=True)
    else:
        x = x.to(device)
    return x[:, :-1], x[:, 1:]


def average(value):
    if parallel:
        dist.all_reduce(value, op=dist.ReduceOp.SUM)
        value /= dist.get_world_size()
    return value


for step in range(args.steps):
    optimizer.zero_grad(set_to_none=True)
    total = torch.zeros((), device=device)
    for _ in range(args.accumulate):
        x, y = batch()
        with autocast(enabled=on_device and args.dtype == "float16", dtype=dtype):
            logits = model(x)
            loss = F.cross_entropy(logits.reshape(-1, 32), y.reshape(-1), weight=weights)
            loss = loss / args.accumulate
        scaler.scale(loss).backward()
        total += loss.detach()
    total = average(total)
    penalty = 1.0 / (1.0 + total)
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * float(penalty.clamp(0.1, 1.0))
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
    if rank == 0:
        print(f"step {step}: loss {total.item():.4f}")

torch.cuda.synchronize() if on_device else None
if rank == 0:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, "last.pt")
again = torch.load("last.pt", map_location=f"cuda:{rank}" if on_device else "cpu") if rank == 0 else None
if again is not None:
    model.load_state_dict(again["model"])
    model.eval()
    with torch.no_grad():
        x, y = batch()
        print(f"after loading: {F.cross_entropy(model(x).reshape(-1, 32), y.reshape(-1)).item():.4f}" if not parallel else "loaded")
if parallel:
    dist.barrier()
    dist.destroy_process_group()
