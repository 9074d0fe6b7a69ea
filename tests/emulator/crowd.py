"""Many threads on the device with the ledger on: none waits for another without end.

    python tests/emulator/crowd.py [--repetitions 1000] [--mode lazy|eager]

One repetition: eight threads train, ask for numbers, synchronize, mark steps, read the books, reset them and draw random
numbers, while a DataLoader with workers and a pinning thread feeds one of them and another one compiles. Repetitions run in
processes of their own, fifty in each. A process that hardly uses the processor for a minute and has the same stacks after
another one hangs, and they are shown; one that a loaded machine makes slow goes on. The device is built first, so that no
process waits for a build.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hpushim.emulator import build

IN_ONE_PROCESS = 50
STANDSTILL_S = 60.0
NO_WORK_S = (
    2.0  # of processor in that time: eight threads that wait for Python's lock use half a second
)

#: Prints the stacks on a signal, whichever thread holds Python's lock.
_ASKED = "import faulthandler, signal\nfaulthandler.register(signal.SIGUSR1)\n"
PROGRAM = """
import faulthandler, sys, threading
import hpushim.emulator
hpushim.emulator.enable()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import habana_frameworks.torch.core as htcore
from hpushim.emulator import device, ledger

torch.set_num_threads(1)
nets = [nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 1)).to("hpu") for _ in range(8)]
data = DataLoader(TensorDataset(torch.randn(16, 8)), 4, num_workers=2, pin_memory=True)

def train(net, x):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with torch.autocast("hpu", torch.bfloat16):
        loss = net(x).sum()
    loss.backward()
    optimizer.step()
    return loss

def feed(i):
    for (batch,) in data:
        train(nets[i], batch.to("hpu", non_blocking=True))
        htcore.mark_step()

def compile_(i):
    torch._dynamo.reset()
    step = torch.compile(lambda x: (x * 2).relu().sum(), backend="hpu_backend")
    for n in (3, 4):
        step(torch.ones(n, 8, device="hpu"))

def ask(i):
    for n in range(1, 6):
        train(nets[i], torch.randn(n, 8, device="hpu")).item()
        torch.hpu.synchronize()

def mark(i):
    for n in range(1, 9):
        y = nets[i](torch.ones(n, 8, device="hpu"))
        htcore.mark_step()
        torch.accelerator.synchronize()

def read(i):
    for n in range(1, 6):
        ledger.snapshot()
        torch.full((n,), 2.0, device="hpu").add_(torch.ones(n, device="hpu"), alpha=n)
        ledger.note("note", "by a thread")

def draw(i):
    for n in range(5):
        nn.functional.dropout(torch.ones(64, device="hpu"), 0.5)
        torch.hpu.manual_seed(n)
        device.share_cpu_random(bool(n % 2))

def reset(i):
    for n in range(3):
        mark(i)
        ledger.reset()

WORK = [feed, compile_, ask, mark, read, draw, reset, ask]
faulthandler.enable()  # shows all stacks on SIGABRT, whoever holds Python's lock
for repetition in range(int(sys.argv[1])):
    threads = [threading.Thread(target=work, args=(i,)) for i, work in enumerate(WORK)]
    for one in threads: one.start()
    for one in threads: one.join()
    print(repetition, flush=True)
"""


def repeat(
    repetitions: int, mode: str, environment: dict[str, str] | None = None, program: str = PROGRAM
) -> str:
    """Run so many repetitions in one process; returns what went wrong, or nothing.

    The device is built before it starts: a build, or the wait for one, stands still as a hang does.
    """
    build.build()
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "HPUSHIM": "off", "HPUSHIM_LOG": "quiet"}
        variables |= {"HPUSHIM_LEDGER": f"{folder}/ledger.json", **(environment or {})}
        variables["PT_HPU_LAZY_MODE"] = "1" if mode == "lazy" else "0"
        script = Path(folder, "program.py")
        script.write_text(_ASKED + program)
        printed, said = Path(folder, "printed"), Path(folder, "said")
        with printed.open("w") as out, said.open("w") as errors:
            # Inherited: where Python does not answer yet, or no longer, being asked does not end the process.
            before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            process = subprocess.Popen(
                [sys.executable, str(script), str(repetitions)],
                env=variables,
                stdout=out,
                stderr=errors,
            )
            signal.signal(signal.SIGUSR1, before)
            hung = _watch(process, said)
        finished, last = len(printed.read_text().split()), said.read_text()[-6000:]
        if process.returncode != 0 or finished != repetitions:
            end = "hung" if hung else f"status {process.returncode}"
            return f"{end} after {finished} repetitions: {last}"
        if not Path(folder, "ledger.json").is_file():
            return "no ledger was written"
    return ""


def _watch(process: subprocess.Popen[bytes], said: Path) -> bool:
    """Wait for a process; one that stands still is ended, its stacks shown. Returns whether that was so."""
    seen: bytes | None = None
    used, since = -1.0, time.monotonic()
    while True:
        try:
            process.wait(timeout=2)
            return False
        except subprocess.TimeoutExpired:
            now = _processor_s(process.pid)
        if now > used + NO_WORK_S:
            used, since, seen = now, time.monotonic(), None
        elif time.monotonic() - since > STANDSTILL_S:
            stacks = _stacks(process, said)
            if stacks == seen:
                process.send_signal(signal.SIGABRT)
                process.wait()
                return True
            used, since, seen = now, time.monotonic(), stacks


def _stacks(process: subprocess.Popen[bytes], said: Path) -> bytes:
    """The stacks of all threads: a process that waits for the processor has others each time."""
    before = size = said.stat().st_size
    process.send_signal(signal.SIGUSR1)
    end = time.monotonic() + STANDSTILL_S
    while time.monotonic() < end:
        time.sleep(1)
        last, size = size, said.stat().st_size
        if size == last > before:
            break
    return said.read_bytes()[before:]


def _processor_s(pid: int) -> float:
    """Seconds of processor that a process has used, its threads included; where that is not told, as if it worked."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Run them all; 1 if one went wrong."""
    parser = argparse.ArgumentParser(description="Threads on the emulated HPU with the ledger on")
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--mode", choices=["lazy", "eager", "both"], default="both")
    given = parser.parse_args()
    modes = ["lazy", "eager"] if given.mode == "both" else [given.mode]
    done = faults = 0
    while done < given.repetitions:
        begun = time.monotonic()
        count = min(IN_ONE_PROCESS, given.repetitions - done)
        mode = modes[done // IN_ONE_PROCESS % len(modes)]
        fault = repeat(count, mode)
        done += count
        faults += bool(fault)
        sys.stdout.write(f"{done} {mode} {time.monotonic() - begun:.0f} s {fault or 'well'}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{done} repetitions, {faults} processes with a fault\n")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
