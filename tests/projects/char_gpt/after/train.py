"""
Train a character-level GPT.

One GPU:
    python train.py --config config/verses.yaml
All GPUs of a node:
    torchrun --standalone --nproc_per_node=4 train.py --config config/verses.yaml
Resume:
    python train.py --config config/verses.yaml --resume out/last.pt
No GPU (slow):
    python train.py --config config/verses.yaml --device cpu
"""

import argparse
import math
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
import yaml
from torch.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel as DDP
import habana_frameworks.torch.core as htcore

from dataset import build_loaders
from model import GPT, GPTConfig
from utils import StepTimer, load_checkpoint, log, memory_summary, reduce_mean, save_checkpoint, set_seed, write_metrics

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.bfloat16}


def parse_args(argv=None):
    p = argparse.ArgumentParser(description="character-level GPT")
    p.add_argument("--config", default=None, help="YAML file with any of the options below")
    p.add_argument("--data", default="data/verses.txt")
    p.add_argument("--out_dir", default="out")
    p.add_argument("--resume", default=None)
    p.add_argument("--metrics", default=None, help="write losses to this JSON file")
    p.add_argument("--device", default="hpu", choices=["hpu", "cpu"])
    p.add_argument("--backend", default="hccl", help="process group backend on GPUs")
    p.add_argument("--dtype", default="float16", choices=list(DTYPES))
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--accum_steps", type=int, default=2)
    p.add_argument("--block_size", type=int, default=64)
    p.add_argument("--n_layer", type=int, default=2)
    p.add_argument("--n_head", type=int, default=2)
    p.add_argument("--n_embd", type=int, default=64)
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--max_iters", type=int, default=200)
    p.add_argument("--warmup_iters", type=int, default=10)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--min_lr", type=float, default=1e-4)
    p.add_argument("--weight_decay", type=float, default=0.1)
    p.add_argument("--grad_clip", type=float, default=1.0)
    p.add_argument("--eval_interval", type=int, default=50)
    p.add_argument("--log_interval", type=int, default=10)
    p.add_argument("--num_workers", type=int, default=0)
    p.add_argument("--seed", type=int, default=1337)
    args, _ = p.parse_known_args(argv)
    if args.config:
        with open(args.config) as f:
            p.set_defaults(**yaml.safe_load(f))
    return p.parse_args(argv)


def setup(args):
    """Process group and device of this process."""
    distributed = "RANK" in os.environ
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    use_cuda = torch.hpu.is_available() and args.device == "hpu"
    if use_cuda:
        torch.hpu.set_device(local_rank)
        device = torch.device("hpu")
    else:
        device = torch.device("cpu")
    if distributed:
        dist.init_process_group(backend=args.backend if use_cuda else "gloo", init_method="env://")
        log(f"{dist.get_world_size()} processes, backend {dist.get_backend()}")
        dist.barrier()
    return distributed, local_rank, device


def learning_rate(it, args):
    if it < args.warmup_iters:
        return args.lr * (it + 1) / args.warmup_iters
    t = min(1.0, (it - args.warmup_iters) / max(1, args.max_iters - args.warmup_iters))
    return args.min_lr + 0.5 * (1.0 + math.cos(math.pi * t)) * (args.lr - args.min_lr)


@torch.no_grad()
def evaluate(model, loader, device, amp_dtype):
    model.eval()
    total, count = torch.zeros((), device=device), 0
    for x, y in loader:
        if device.type == "hpu":
            x, y = x.to("hpu", non_blocking=True), y.to("hpu", non_blocking=True)
        with autocast(device_type="hpu", enabled=amp_dtype != torch.float32, dtype=amp_dtype):
            _, loss = model(x, y)
        total += loss.float()
        count += 1
    model.train()
    return reduce_mean(total / count).item()


def batches(loader, sampler):
    epoch = 0
    while True:
        if sampler is not None:
            sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def main(argv=None):
    args = parse_args(argv)
    distributed, local_rank, device = setup(args)
    use_cuda = device.type == "hpu"
    set_seed(args.seed)

    torch.backends.cuda.matmul.allow_tf32 = False  # exact fp32, to compare runs
    torch.backends.cudnn.allow_tf32 = False

    if use_cuda:
        log(f"device {device}: {torch.hpu.get_device_name(device)}, {torch.hpu.device_count()} visible")
    else:
        log("CUDA is not available or not wanted, training on CPU")

    train_loader, val_loader, sampler, vocab = build_loaders(args, distributed)
    config = GPTConfig(
        vocab_size=len(vocab),
        block_size=args.block_size,
        n_layer=args.n_layer,
        n_head=args.n_head,
        n_embd=args.n_embd,
        dropout=args.dropout,
    )
    model = GPT(config).to(device)
    log(f"{model.num_params():,} parameters, {len(train_loader.dataset)} windows, {len(vocab)} characters")

    optimizer = model.configure_optimizer(args.lr, args.weight_decay, (0.9, 0.95), device.type)
    scaler = GradScaler("hpu", enabled=False)
    amp_dtype = DTYPES[args.dtype] if use_cuda else torch.float32

    if distributed:
        model = DDP(model)
    assert (next(model.parameters()).device.type == "hpu") == use_cuda

    start = 0
    if args.resume:
        start = load_checkpoint(args.resume, model, optimizer, scaler, local_rank, use_cuda)
        log(f"resumed {args.resume} at step {start}")

    timer = StepTimer(device)
    if use_cuda:
        torch.hpu.reset_peak_memory_stats()
    data = batches(train_loader, sampler)
    losses, evals = [], []
    for it in range(start, args.max_iters):
        timer.start()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(it, args)

        running = torch.zeros((), device=device)
        for micro in range(args.accum_steps):
            x, y = next(data)
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            last = micro == args.accum_steps - 1
            with model.no_sync() if distributed and not last else nullcontext():
                with autocast(device_type="hpu", enabled=amp_dtype != torch.float32, dtype=amp_dtype):
                    _, loss = model(x, y)
                    loss = loss / args.accum_steps
                scaler.scale(loss).backward()
                htcore.mark_step()
            running += loss.detach().float()

        if args.grad_clip > 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        scaler.step(optimizer)
        htcore.mark_step()
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

        losses.append(reduce_mean(running).item())
        ms = timer.stop()
        if it % args.log_interval == 0 or it == args.max_iters - 1:
            log(f"iter {it:4d} loss {losses[-1]:.4f} {ms:.1f} ms scale {scaler.get_scale():.0f} memory {memory_summary()}")
        if (it + 1) % args.eval_interval == 0 or it == args.max_iters - 1:
            evals.append((it + 1, evaluate(model, val_loader, device, amp_dtype)))
            log(f"eval after {it + 1} iterations: {evals[-1][1]:.4f}")
            save_checkpoint(os.path.join(args.out_dir, "last.pt"), model, optimizer, scaler, it + 1, args)

    write_metrics(
        args.metrics,
        {
            "device": str(next(model.parameters()).device),
            "dtype": args.dtype,
            "iterations": args.max_iters - start,
            "losses": losses,
            "evals": evals,
            "final_loss": evals[-1][1],
        },
    )
    log(f"final loss {evals[-1][1]:.4f}")
    if distributed:
        dist.barrier()
        dist.destroy_process_group()
    return model


if __name__ == "__main__":
    main()
