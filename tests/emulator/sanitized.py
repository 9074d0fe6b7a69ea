"""Build the device with a sanitizer, or with all warnings on, and run it: programs, threads, ranks.

    python tests/emulator/sanitized.py address          # address and undefined behaviour, and the order of locks
    python tests/emulator/sanitized.py thread           # data races and the order of locks
    python tests/emulator/sanitized.py warnings         # -Wall -Wextra: nothing is run

Further words choose among the programs (``--list`` names them). Each sanitizer's library goes into the cache and is built
once for each source. Python and torch are not instrumented: what is reported is what the device's own code takes part in.
First a small library with faults in it is run, and each of them must be reported. The exit status is 1 for a report with a
frame of the device, for a program that fails, and for a fault that was not reported.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import crowd
import endings

from hpushim.emulator import build, cache, compiling

HERE = Path(__file__).parent
LIMIT_S = 1800


@dataclass(frozen=True)
class Kind:
    """A sanitizer: the compiler's flags, the libraries to load first, and its settings."""

    flags: tuple[str, ...]
    preloaded: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    finds: tuple[str, ...] = ()  # functions of FAULTS


_DEBUG = ("-g1", "-O1", "-fno-omit-frame-pointer", "-DHPU_CHECK_LOCKS")
KINDS = {
    "address": Kind(
        # Types of torch's own are hidden in its libraries, which is all that vptr would see.
        (*_DEBUG, "-fsanitize=address,undefined", "-fno-sanitize=vptr"),
        ("libasan.so", "libubsan.so"),
        (
            # Python keeps what it has until the process ends; dlopen's order of definitions is torch's.
            ("ASAN_OPTIONS", "detect_leaks=0:detect_odr_violation=0:new_delete_type_mismatch=0"),
            # Beside the other one it writes to standard error only, so it has to end the process.
            ("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1"),
        ),
        ("heap", "overflow"),
    ),
    "thread": Kind(
        (*_DEBUG, "-fsanitize=thread"),
        ("libtsan.so",),
        (
            (
                "TSAN_OPTIONS",
                "ignore_noninstrumented_modules=1:report_signal_unsafe=0:die_after_fork=0:exitcode=0",
            ),
        ),
        ("race",),
    ),
    "warnings": Kind(("-Wall", "-Wextra", "-Werror")),
}

FAULTS = """
#include <cstdlib>
#include <limits>
#include <thread>
extern "C" {
int heap() { volatile int* p = new int[4]; p[0] = 1; delete[] p; return p[0]; }
int overflow() { volatile int x = std::numeric_limits<int>::max(); return x + 1; }
int race() {
  static int shared = 0;
  auto work = [] { for (int i = 0; i < 100000; ++i) ++shared; };
  std::thread one(work), other(work);
  one.join();
  other.join();
  return shared;
}
}
"""

TRAINING = """
import hpushim.emulator
hpushim.emulator.enable()
import io, torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(144, 10)).to("hpu")
optimizer = torch.optim.AdamW(net.parameters())
for n in (2, 3, 2):
    with torch.autocast("hpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(net(torch.randn(n, 3, 8, 8).to("hpu")), torch.zeros(n, dtype=torch.long, device="hpu"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
buffer = io.BytesIO()
torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
buffer.seek(0)
net.load_state_dict(torch.load(buffer)["net"])
"""

TENSORS = """
import hpushim.emulator
hpushim.emulator.enable()
import torch
x = torch.arange(24.0, device="hpu").view(4, 6)
x.resize_(2, 3).resize_(50, 50)
y = torch._lazy_clone(x)
y += 1
z = torch._lazy_clone(y)
del y
z.mul_(2)
x.set_(z.untyped_storage(), 0, (3, 3), (1, 3))
x[:, 1].copy_(x[:, 0]); x.t().contiguous()
torch.ones(3).pin_memory().to("hpu", non_blocking=True)
torch.cat([x, x]).nonzero(); x[x > 1]; x.unique(); x.topk(2); x.sort()
torch.complex(x, x).conj().resolve_conj().real
w = torch.randn(10, device="hpu", generator=torch.Generator("hpu").manual_seed(1))
nn = torch.nn.functional
q = torch.randn(1, 2, 5, 8, device="hpu", requires_grad=True)
nn.scaled_dot_product_attention(q, q, q, is_causal=True, dropout_p=0.1).sum().backward()
torch.nn.LSTM(4, 5).to("hpu")(torch.randn(3, 2, 4, device="hpu"))[0].sum().backward()
for size in (1 << 60, 1 << 40):
    try: torch.empty(size, device="hpu")
    except torch.OutOfMemoryError: pass
    try: torch.ones(1, device="hpu").expand(size).add(1)
    except torch.OutOfMemoryError: pass
with torch.profiler.profile() as p: (x @ x).sum().item()
torch.compile(lambda t: (t @ t).relu(), backend="hpu_backend")(torch.randn(4, 4, device="hpu"))
from hpushim.emulator import ledger
ledger.snapshot()
"""


def programs() -> dict[str, object]:
    """What is run, by name: source, or a function of the environment that returns what went wrong."""
    found: dict[str, object] = {"training": TRAINING, "tensors": TENSORS}
    for mode in ("lazy", "eager"):
        found[f"crowd-{mode}"] = lambda env, mode=mode: crowd.repeat(3, mode, env)
    for ending in endings.ENDINGS:
        found[f"ending-{ending}"] = lambda env, ending=ending: (
            endings.run(ending, "left", env).fault
        )
    for words in (
        ["hccl_collectives.py", "hccl"],
        ["hccl_collectives.py", "mixed"],
        ["hccl_limits.py"],
    ):
        found["ranks-" + "-".join(words)] = lambda env, words=words: _ranks(words, env)
    return found


def _ranks(words: list[str], environment: dict[str, str]) -> str:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return _run([*launcher, str(HERE / words[0]), *words[1:]], environment)


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return "" if done.returncode == 0 else f"status {done.returncode}: {done.stderr[-2000:]}"


def library(kind: Kind, name: str) -> Path:
    """The folder to put on PYTHONPATH: a device built with these flags, as a prebuilt one."""
    torch = build._usable_torch()
    root = cache.cache_dir() / "sanitized" / name
    target = root / build.PREBUILT / build._key(torch) / build._library_name()
    if not target.is_file():
        cache.make_own_folder(target.parent.parent)
        (target.parent.parent / "__init__.py").touch()
        with tempfile.TemporaryDirectory(dir=root) as work:
            made = Path(work, "out", target.name)
            compiling.library(torch, made, Path(work), extra=kind.flags, strip=False)
            made.parent.replace(target.parent)
    return root


def _preloaded(names: tuple[str, ...]) -> str:
    found = [
        subprocess.run(
            [compiling.compiler(), f"-print-file-name={name}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for name in names
    ]
    return " ".join(found)


def blind_to(kind: Kind, root: Path) -> list[str]:
    """The faults of FAULTS that this sanitizer should report and does not."""
    missed = []
    with tempfile.TemporaryDirectory(dir=root) as work:
        source, made = Path(work, "csrc", "faults.cpp"), Path(work, f"{build.MODULE}_faults.so")
        source.parent.mkdir()
        source.write_text(FAULTS)
        words = [
            compiling.compiler(),
            "-shared",
            "-fPIC",
            *kind.flags,
            str(source),
            "-o",
            str(made),
        ]
        compiling.run(words, Path(work), "compiling the faults")
        for name in kind.finds:
            with tempfile.TemporaryDirectory() as folder:
                code = f"import ctypes; ctypes.CDLL({str(made)!r}).{name}()"
                said = _run([sys.executable, "-c", code], _environment(kind, root, Path(folder)))
                if "runtime error" not in said and not reports(Path(folder)):
                    missed.append(name)
    return missed


def _environment(kind: Kind, root: Path, folder: Path) -> dict[str, str]:
    settings = {name: f"{value}:log_path={folder}/report" for name, value in kind.settings}
    return {
        **settings,
        "LD_PRELOAD": _preloaded(kind.preloaded),
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(root),
        "HPUSHIM": "off",
        "HPUSHIM_LOG": "quiet",
        "OMP_NUM_THREADS": "1",
    }


def reports(folder: Path) -> list[str]:
    """The sanitizer's reports with a frame of the device in them."""
    found = []
    for path in folder.glob("report.*"):
        for text in re.split(r"(?m)^={10,}$", path.read_text(errors="replace")):
            if build.MODULE in text or "csrc/" in text:
                found.append(text.strip())
    return found


def main() -> int:
    """Build, run, report."""
    parser = argparse.ArgumentParser(description="The emulated HPU under a sanitizer")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    known = programs()
    if given.list:
        print(*known, sep="\n")
        return 0
    kind = KINDS[given.kind]
    path = library(kind, given.kind)
    if not kind.preloaded:
        print(f"{given.kind}: the device compiles without any")
        return 0
    missed = blind_to(kind, path)
    print(
        f"faults made for the check: {len(kind.finds)}, not reported: {', '.join(missed) or 'none'}",
        flush=True,
    )
    faults = len(missed)
    for name in given.names or known:
        with tempfile.TemporaryDirectory() as folder:
            environment = _environment(kind, path, Path(folder))
            program = known[name]
            fault = (
                program(environment)
                if callable(program)
                else _run([sys.executable, "-c", str(program)], environment)
            )
            found = reports(Path(folder))
            faults += bool(fault or found)
            print(
                f"{name}: {f'{len(found)} reports' if found else 'no report'} {fault}", flush=True
            )
            for text in dict.fromkeys(found):
                print(text[:6000], flush=True)
    print(f"{len(given.names or known)} programs, {faults - len(missed)} with a report or a fault")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
