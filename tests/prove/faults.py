"""Faults planted into a migrated copy: how many ``hpushim prove`` finds, and whether it names the line.

    python tests/prove/faults.py [NAME …]        # all, or those named (--no-locate: only found or not); exit code 1 where a fault is missed that should be found

Each fault is what a wrong rule, or a hand, could leave in the migrated copy of ``planted/``. ``line`` is text of the original's line
that is to be named. The runs of the original are made once and used for every fault.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from forks import fork_runs

from hpushim.prove.trial import Outcome, Request, prove
from hpushim.prove.words import parse

PROJECT = Path(__file__).resolve().parent / "planted"
SINGLE = ("train.py", "--steps", "4")
PAIR = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py", "--steps", "3", "--dtype", "float32")  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """``old`` in the migrated file becomes ``new``."""

    name: str
    file: str
    old: str
    new: str
    line: str
    words: tuple[str, ...] = SINGLE


FAULTS = (
    # literals and devices
    Fault("literal left", "train.py", 'torch.device("hpu")', 'torch.device("cuda", rank)', 'torch.device("cuda"'),
    Fault("default left", "train.py", 'default="hpu"', 'default="cuda"', 'default="cuda"'),
    Fault("mask left on the CPU", "model.py", 'device="hpu" if x.device.type == "hpu" else "cpu"', 'device="cpu"', "mask = torch.tril"),
    Fault("literal left in the model", "model.py", 'device="hpu" if', 'device="cuda" if', "mask = torch.tril"),
    Fault("comparison left", "model.py", 'x.device.type == "hpu"', 'x.device.type == "cuda"', "mask = torch.tril"),
    Fault("check turned alone", "train.py", 'args.device.startswith("hpu")', 'args.device.startswith("cuda")', "on_card = "),
    Fault("check left", "train.py", "torch.hpu.is_available()", "torch.cuda.is_available()", "on_card = "),
    Fault("move dropped", "train.py", "model = Model().to(device)", "model = Model()", "model = Model().to(device)"),
    Fault("weights left on the CPU", "train.py", '.to("hpu")', "", ".cuda(rank)"),
    Fault("int index kept", "train.py", '.to("hpu")', ".to(rank + 7)", ".cuda(rank)"),
    Fault("set_device left", "train.py", "torch.hpu.set_device", "torch.cuda.set_device", "torch.cuda.set_device"),
    Fault("seed left", "train.py", "torch.hpu.random.manual_seed_all(7)", "torch.hpu.random.manual_seed_all(8)", "torch.cuda.manual_seed_all"),
    Fault("synchronize left", "train.py", "torch.hpu.synchronize", "torch.cuda.synchronize", "torch.cuda.synchronize"),
    Fault("map_location left", "train.py", 'map_location="hpu" if', 'map_location=f"cuda:{rank}" if', "map_location="),
    Fault("import left", "train.py", "from torch.amp import autocast", "from torch.cuda.amp import autocast", "GradScaler, autocast"),
    # precision and scaling
    Fault("fp16 left", "train.py", "torch.bfloat16", "torch.float16", '"float16": torch.float16'),
    Fault("fp32 written for fp16", "train.py", "torch.bfloat16", "torch.float32", '"float16": torch.float16'),
    Fault("autocast for the CPU", "train.py", 'autocast(device_type="hpu"', 'autocast(device_type="cpu"', "with autocast("),
    Fault("autocast switched off", "train.py", 'enabled=on_card and args.dtype == "float16", dtype', "enabled=False, dtype", "with autocast("),
    Fault("inner autocast on", "model.py", 'device_type="hpu", enabled=False', 'device_type="hpu", dtype=torch.bfloat16, enabled=True', "autocast(enabled=False)"),
    Fault("inner autocast of the CPU", "model.py", 'device_type="hpu", enabled=False', 'device_type="cpu", enabled=False', "autocast(enabled=False)"),
    Fault("scale left without a scaler", "train.py", "loss.backward()", "(loss * 65536.0).backward()", "scaler.scale(loss).backward()"),
    Fault("unscale becomes a scaling", "train.py", "    torch.nn.utils.clip_grad_norm_", "    [p.grad.mul_(1 / 65536.0) for p in model.parameters()]\n    torch.nn.utils.clip_grad_norm_", "scaler.unscale_(optimizer)"),
    Fault("scaler call left", "train.py", "    optimizer.step()", "    scaler.step(optimizer)", "scaler.step(optimizer)"),
    Fault("step lost with the scaler", "train.py", "    optimizer.step()\n", "    if False:\n        optimizer.step()\n", "scaler.step(optimizer)"),
    Fault("step made twice", "train.py", "    optimizer.step()\n", "    optimizer.step()\n    optimizer.step()\n", "scaler.step(optimizer)"),
    Fault("clipping lost", "train.py", "    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n", "", "clip_grad_norm_"),
    Fault("zero_grad moved", "train.py", "        loss.backward()", "        optimizer.zero_grad(set_to_none=True)\n        loss.backward()", "scaler.scale(loss).backward()"),
    # marks
    Fault("no mark behind backward", "train.py", "loss.backward()\n        htcore.mark_step()", "loss.backward()", "scaler.scale(loss).backward()"),
    Fault("no mark behind the step", "train.py", "optimizer.step()\n    htcore.mark_step()", "optimizer.step()", "scaler.step(optimizer)"),
    Fault("mark before backward", "train.py", "loss.backward()\n        htcore.mark_step()", "htcore.mark_step()\n        loss.backward()", "scaler.scale(loss).backward()"),
    # values beside
    Fault("accumulation undone", "train.py", "loss = loss / args.accumulate", "loss = loss", "loss = loss / args.accumulate"),
    Fault("non_blocking reads early", "train.py", "x = x.pin_memory().to(device, non_blocking=True)", "x = torch.empty_like(x, device=device).zero_()", "x = x.pin_memory()"),
    Fault("buffer in bf16", "model.py", ".float() / 10", ".float().div(10).bfloat16()", "place = torch.arange"),
    Fault("checkpoint of another", "train.py", '"model": model.state_dict()', '"model": Model().state_dict()', "torch.save("),
    # what is measured and told, and nothing else
    Fault("evaluation in training mode", "train.py", "    model.eval()\n", "", "model.eval()"),
    Fault("another loss is told", "train.py", "loss {total.item():.4f}", "loss {loss.item():.4f}", "step {step}: loss"),
    Fault("evaluated on other data", "train.py", "        x, y = batch()\n        print", "        x, y = batch()\n        x = x.flip(0)\n        print", 'print(f"after loading'),
    # two processes
    Fault("gloo written for nccl", "train.py", '"hccl" if on_card', '"gloo" if on_card', "init_process_group", PAIR),
    Fault("nccl left", "train.py", '"hccl" if on_card', '"nccl" if on_card', "init_process_group", PAIR),
    Fault("wrong reduce operation", "train.py", "dist.ReduceOp.SUM", "dist.ReduceOp.MAX", "dist.all_reduce", PAIR),
    Fault("wrapper dropped", "train.py", "model = DistributedDataParallel(model)", "pass", "model = DistributedDataParallel", PAIR),
    Fault("device_ids left with a second card", "train.py", "DistributedDataParallel(model)", "DistributedDataParallel(model, device_ids=[rank])", "model = DistributedDataParallel", PAIR),
    Fault("card numbered by rank", "train.py", 'torch.device("hpu")', 'torch.device("hpu", rank)', 'torch.device("cuda"', PAIR),
    Fault("hook on gradients", "train.py", "DistributedDataParallel(model)\n", "DistributedDataParallel(model)\n    [p.register_hook(lambda g: g.sign()) for p in model.parameters()]\n", "model = DistributedDataParallel", PAIR),
    Fault("gradients not averaged", "train.py", "DistributedDataParallel(model)\n", "DistributedDataParallel(model)\n    model.require_backward_grad_sync = False\n", "model = DistributedDataParallel", PAIR),
    Fault("reduction dropped", "train.py", "        dist.all_reduce(value, op=dist.ReduceOp.SUM)\n", "", "dist.all_reduce", PAIR),
)  # fmt: skip


def planted(fault: Fault) -> Request:
    """The proof of the project with one fault in its migrated copy."""

    def plant(copy: Path) -> None:
        path = copy / fault.file
        text = path.read_text()
        if text.count(fault.old) < 1:
            raise ValueError(f"{fault.name}: {fault.old!r} is not in the migrated {fault.file}")
        path.write_text(text.replace(fault.old, fault.new, 1))

    return Request(command=parse(fault.words), cwd=PROJECT, root=PROJECT, no_cpu=True, steps=0, plant=plant)  # fmt: skip


def line_of(fault: Fault) -> int:
    """The line of the original that is to be named."""
    lines = (PROJECT / fault.file).read_text().splitlines()
    return next(number for number, text in enumerate(lines, 1) if fault.line in text)


def assessed(fault: Fault, outcome: Outcome) -> tuple[bool, bool]:
    """Whether the fault was found, and whether its line was named (within one line, as hunks are)."""
    cause = outcome.cause
    named = cause is not None and cause.file == fault.file and abs(cause.line - line_of(fault)) <= 1
    return outcome.verdict == "different", named


def main(names: list[str]) -> int:
    """Plants the faults; prints a table."""
    os.environ["HPUSHIM"] = "off"
    fork_runs()
    locate = "--no-locate" not in names
    names = [name for name in names if not name.startswith("--")]
    kept: dict[tuple[str, ...], Outcome] = {}
    missed, named, total = 0, 0, 0
    for fault in FAULTS:
        if names and fault.name not in names:
            continue
        begin = time.monotonic()
        request = planted(fault)
        request.locate = locate
        if fault.words in kept:
            request.baseline = kept[fault.words]
        outcome = prove(request)
        kept.setdefault(fault.words, outcome)
        found, line = assessed(fault, outcome)
        total += 1
        missed += not found
        named += line
        cause = outcome.cause.shown() if outcome.cause else outcome.verdict
        print(f"{'found ' if found else 'MISSED'} {'line' if line else '-   '} {time.monotonic() - begin:5.0f} s  {fault.name:36} {cause}: {outcome.reason[:110]}", flush=True)  # fmt: skip
    print(f"{total - missed} of {total} found, the line named for {named}")
    return 1 if missed > total // 10 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
