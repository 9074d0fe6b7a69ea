"""Seeding, timing, memory, checkpoints."""

import json
import os
import random
import time

import torch
import torch.distributed as dist


def is_main_process():
    return not dist.is_initialized() or dist.get_rank() == 0


def log(*message):
    if is_main_process():
        print(*message, flush=True)


def set_seed(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    if torch.hpu.is_available():
        torch.hpu.random.manual_seed_all(seed)


class StepTimer:
    """Milliseconds between start() and stop(); CUDA events on the GPU, wall clock elsewhere."""

    def __init__(self, device):
        self.cuda = device.type == "hpu"
        if self.cuda:
            self.begin = torch.hpu.Event(enable_timing=True)
            self.end = torch.hpu.Event(enable_timing=True)

    def start(self):
        if self.cuda:
            self.begin.record()
        else:
            self.t0 = time.perf_counter()

    def stop(self):
        if self.cuda:
            self.end.record()
            torch.hpu.synchronize()
            return self.begin.elapsed_time(self.end)
        return (time.perf_counter() - self.t0) * 1000.0


def memory_summary():
    if not torch.hpu.is_available():
        return "n/a"
    used = torch.hpu.memory_allocated() / 1024**2
    peak = torch.hpu.max_memory_allocated() / 1024**2
    return f"{used:.1f} MiB (peak {peak:.1f} MiB)"


def reduce_mean(value):
    """Mean of a scalar tensor over all ranks."""
    if not dist.is_initialized():
        return value
    value = value.clone()
    dist.all_reduce(value, op=dist.ReduceOp.SUM)
    return value / dist.get_world_size()


def save_checkpoint(path, model, optimizer, scaler, step, args):
    if not is_main_process():
        return
    raw = model.module if hasattr(model, "module") else model
    state = {
        "model": raw.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": scaler.state_dict(),
        "step": step,
        "args": vars(args),
        "rng": torch.get_rng_state(),
    }
    if torch.hpu.is_available():
        state["cuda_rng"] = torch.hpu.random.get_rng_state_all()
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    torch.save(state, path)


def load_checkpoint(path, model, optimizer, scaler, local_rank, use_cuda):
    map_location = "hpu" if use_cuda else "cpu"
    state = torch.load(path, map_location=map_location)
    raw = model.module if hasattr(model, "module") else model
    raw.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
    torch.set_rng_state(state["rng"].cpu())
    if use_cuda and "cuda_rng" in state:
        torch.hpu.random.set_rng_state_all([s.cpu() for s in state["cuda_rng"]])
    return state["step"]


def write_metrics(path, metrics):
    if path and is_main_process():
        with open(path, "w") as f:
            json.dump(metrics, f, indent=1)
