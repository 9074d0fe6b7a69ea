"""The agnostic style: the form that a maintainer writes, the same on the CPU as before, and what stays."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.project import analyse, migrate, undo
from hpushim.engine.python import lines
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Style, Target

HEAD = "import os\nimport torch\nimport torch.nn as nn\nimport torch.distributed as dist\n"
CURRENT = "torch.accelerator.current_accelerator()"
AVAILABLE = "torch.accelerator.is_available()"
CHOICE = f'{CURRENT}.type if {AVAILABLE} else "cpu"'
DEFAULT = "accelerator_device()"
#: Where one function, or the program, has all uses of the device.
KEPT = f'device = {CURRENT} if {AVAILABLE} else torch.device("cpu")'
#: The same in a program that fails without CUDA, as :func:`body` shows it.
NEEDED = "device = accelerator or error"
REFUSAL = f'if not {AVAILABLE}:\n    raise RuntimeError("no accelerator is available")\n'
FUNCTION = (
    "def accelerator_device():\n"
    f"    if not {AVAILABLE}:\n"
    '        raise RuntimeError("no accelerator is available")\n'
    f"    return {CURRENT}\n"
)
OR_CPU = (
    f"def {DEFAULT}:\n"
    f"    if {AVAILABLE}:\n"
    f"        return {CURRENT}\n"
    '    return torch.device("cpu")\n'
)


def written(text: str, style: Style = "agnostic", path: str = "train.py") -> Settled:
    context = Context(Target(style=style, mode="eager"), load())
    kind = {"py": "python", "yaml": "yaml", "sh": "shell"}[path.rpartition(".")[2]]
    after = settle(text, kind, path, context)  # type: ignore[arg-type]
    assert not [f for f in after.findings if f.code == "HPU004"]
    assert settle(after.text, kind, path, context).text == after.text  # type: ignore[arg-type]
    return after


def body(text: str) -> str:
    """What becomes of the statements behind the imports, without the function; a choice over several lines in one."""
    with mock.patch.object(lines, "limit", return_value=1000):
        after = written(HEAD + text).text
    after = after.removeprefix(HEAD).replace(FUNCTION, "").replace(OR_CPU, "")
    refused = rf"if not {re.escape(AVAILABLE)}:\n +raise RuntimeError\(.*\)\n( *\w+ = ){re.escape(CURRENT)}"
    after = re.sub(refused, lambda found: f"{found[1].lstrip()}accelerator or error", after)
    after = re.sub(r"\(\n +(.*)\n +(if .*)\n +(else .*)\n *\)", r"\1 \2 \3", after)
    return "\n".join(line for line in after.splitlines() if line.strip())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # a device: a choice keeps its form, elsewhere the one at hand or the file's constant
        ('d = "cuda" if torch.cuda.is_available() else "cpu"', f"d = {CHOICE}"),
        ('device = "cuda"', f"device = {CHOICE}"),
        ('device = torch.device("cuda")', 'device = accelerator or error'),
        ('device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")', f'device = {CURRENT} if {AVAILABLE} else torch.device("cpu")'),
        ("x = x.cuda()", f"{NEEDED}\nx = x.to(device)"),
        ('x = torch.zeros(2, device="cuda")', f"{NEEDED}\nx = torch.zeros(2, device=device)"),
        ("def f(x):\n    return x.cuda()\ndef g(x):\n    return x.cuda()", "def f(x):\n    return x.to(accelerator_device())\ndef g(x):\n    return x.to(accelerator_device())"),
        ("def f(xs):\n    return [x.cuda() for x in xs]\ndef g(x):\n    return x.cuda()", "def f(xs):\n    device = accelerator_device()\n    return [x.to(device) for x in xs]\ndef g(x):\n    return x.to(accelerator_device())"),
        ("def f(x, y):\n    def g(z):\n        return z.cuda()\n    return g(x), y.cuda()", f"def f(x, y):\n    {NEEDED}\n    def g(z):\n        return z.to(device)\n    return g(x), y.to(device)"),
        ("def f(x, device):\n    return x.cuda() + x.to(device)", "def f(x, device):\n    return x.to(device) + x.to(device)"),
        ("def f(x):\n    if many:\n        x = x.cuda()\n    return x", f"def f(x):\n    if many:\n        {NEEDED}\n        x = x.to(device)\n    return x"),
        ('def f(device="cuda"):\n    return device', 'def f(device=None):\n    if device is None:\n        device = accelerator or error.type\n    return device'),
        ('def f(*, device=torch.device("cuda")):\n    """Text."""\n    return device', f'def f(*, device=None):\n    """Text."""\n    if device is None:\n        {NEEDED}\n    return device'),
        # too early to ask for a device: a parser, a field, a file that others import; a stub has no body
        ('def f(p):\n    p.add_argument("--device", default="cuda")', 'def f(p):\n    p.add_argument("--device", default="cuda")'),
        ('class C:\n    device = "cuda"', 'class C:\n    device = "cuda"'),
        ('HERE = torch.device("cuda")\ndef f(x):\n    return x', 'HERE = torch.device("cuda")\ndef f(x):\n    return x'),
        ('def f(device="cuda"): ...', 'def f(device="cuda"): ...'),
        ('device = torch.device("cuda")\nx = x.cuda(non_blocking=True)', 'device = accelerator or error\nx = x.to(device, non_blocking=True)'),
        # not at hand: of another function, given later, given under a condition
        ('def f():\n    device = "cuda"\ndef g(x):\n    return x.cuda()', "def f():\n    device = accelerator_device().type\ndef g(x):\n    return x.to(accelerator_device())"),
        ('x = x.cuda()\ndevice = "cuda"', "x = x.to(accelerator_device())\ndevice = accelerator_device().type"),
        ('if many:\n    device = "cuda"\nx = x.cuda()', "if many:\n    device = accelerator_device().type\nx = x.to(accelerator_device())"),
        # a variable decides: the device itself, unless it is a part of something else
        ("use = torch.cuda.is_available()\ndevice = torch.device('cuda' if use else 'cpu')", f"use = {AVAILABLE}\ndevice = {CURRENT} if use else torch.device('cpu')"),
        ("use = torch.cuda.is_available()\ndevice = torch.device('cpu' if not use else 'cuda')", f"use = {AVAILABLE}\ndevice = torch.device('cpu' if not use else {CURRENT}.type)"),
        ("use = torch.cuda.is_available()\nx = x.to(torch.device('cuda' if use else 'cpu'))", f"use = {AVAILABLE}\nx = x.to(torch.device({CURRENT}.type if use else 'cpu'))"),
        # other devices that the accelerator covers are chosen no more
        ('d = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"', f"d = {CHOICE}"),
        ("half = torch.cuda.is_available() and torch.cuda.is_bf16_supported()", "half = torch.cuda.is_available() and torch.cuda.is_bf16_supported()"),
        ('assert backend in ["gloo", "nccl"]', 'assert backend in ["gloo", "nccl"]'),
        ('m = dist.init_device_mesh("cuda", (2,))', f"{KEPT}\nm = dist.init_device_mesh(device.type, (2,))"),
        ("class A:\n    autocast = torch.cuda.amp.autocast", "class A:\n    autocast = torch.cuda.amp.autocast"),
        ('d = "cuda" if torch.cuda.is_available() and use else "cpu"', f'd = {CURRENT}.type if {AVAILABLE} and use else "cpu"'),
        ('if self.device.type == "cuda":\n    with torch.cuda.amp.autocast():\n        y = x.cuda()', 'if self.device.type != "cpu":\n    with torch.autocast(device_type=self.device.type):\n        y = x.to(self.device)'),
        ('d = "xpu" if is_torch_xpu_available() else "cuda"', 'd = "xpu" if is_torch_xpu_available() else "cuda"'),
        # a check and what it controls are one group; a torch.device equals no text, an option may be any
        ("if torch.cuda.is_available():\n    torch.backends.cudnn.benchmark = True", "if torch.cuda.is_available():\n    torch.backends.cudnn.benchmark = True"),
        ("if torch.cuda.is_available():\n    m = nn.DataParallel(m).cuda()", "if torch.cuda.is_available():\n    m = nn.DataParallel(m).cuda()"),
        ('if args.device == "cuda":\n    m = m.cuda()', 'if args.device == "cuda":\n    m = m.cuda()'),
        ('device = torch.device(name)\nif device == "cuda":\n    m = m.cuda()', 'device = torch.device(name)\nif device == "cuda":\n    m = m.cuda()'),
        # the device of the object
        ('class A:\n    def __init__(self):\n        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n    def f(self, x):\n        return x.cuda()', f'class A:\n    def __init__(self):\n        self.device = {CURRENT} if {AVAILABLE} else torch.device("cpu")\n    def f(self, x):\n        return x.to(self.device)'),
        # comparisons: any accelerator, apart from the devices that the file knows; kernels stay
        ('if device.type == "cuda":\n    pass', 'if device.type != "cpu":\n    pass'),
        ('if device.type != "cuda":\n    pass', 'if device.type == "cpu":\n    pass'),
        ('if x.is_cuda:\n    pass', 'if x.device.type != "cpu":\n    pass'),
        ('if not x.is_cuda:\n    pass', 'if x.device.type == "cpu":\n    pass'),
        ('if x.is_cuda or x.is_xpu:\n    pass', 'if x.device.type != "cpu":\n    pass'),
        ('if device.type == "cuda":\n    a()\nelif device.type == "mps":\n    b()', 'if device.type not in ("cpu", "mps"):\n    a()\nelif device.type == "mps":\n    b()'),
        ('if str(device).startswith("cuda"):\n    pass', 'if not str(device).startswith("cpu"):\n    pass'),
        ('kind = "cuda" if "cuda" in device else "cpu"', "kind = torch.device(device).type"),
        ('if args.device in ("cpu", "cuda"):\n    pass', 'if args.device in ("cpu", "cuda"):\n    pass'),
        ('p.add_argument("--device", choices=["cpu", "cuda"])', 'p.add_argument("--device", choices=["cpu", "cuda"])'),
        # names
        ("torch.cuda.synchronize()", "torch.accelerator.synchronize()"),
        ("torch.cuda.synchronize(device=d)", "torch.accelerator.synchronize(d)"),
        ("n = torch.cuda.device_count()", "n = torch.accelerator.device_count()"),
        ("e = torch.cuda.Event(enable_timing=True)", "e = torch.Event(enable_timing=True)"),
        ("torch.cuda.manual_seed_all(1)", "torch.cuda.manual_seed_all(1)"),
        ("if torch.cuda.is_available():\n    print(torch.cuda.get_device_name(0))", "if torch.cuda.is_available():\n    print(torch.cuda.get_device_name(0))"),
        ("m = torch.cuda.memory_allocated()", "m = torch.cuda.memory_allocated()"),
        ("torch.backends.cudnn.benchmark = True", "torch.backends.cudnn.benchmark = True"),
        ("m = torch.compile(m)", "m = torch.compile(m)"),
        ("o = torch.optim.Adam(p, fused=True)", "o = torch.optim.Adam(p, fused=True)"),
        ('assert torch.cuda.is_available(), "no CUDA device"', f'assert {AVAILABLE}, "no accelerator device"'),
        ('if torch.cuda.is_available():\n    if not args.cuda:\n        print("You have a CUDA device, so run with --cuda.")', f'if {AVAILABLE}:\n    if not args.cuda:\n        print("You have an accelerator device, so run with --cuda.")'),
        ('print(f"CUDA device count: {torch.cuda.device_count()}")', 'print(f"accelerator device count: {torch.accelerator.device_count()}")'),
        ('print(f"CUDA memory: {torch.cuda.memory_allocated()}")', 'print(f"CUDA memory: {torch.cuda.memory_allocated()}")'),
        ('p.add_argument("--use_cuda_graphs", action="store_true")', 'p.add_argument("--use_cuda_graphs", action="store_true")'),
        # AMP
        ("c = torch.cuda.amp.autocast()", f'{KEPT}\nc = torch.autocast(device_type=device.type, enabled=device.type != "cpu")'),
        ("c = torch.cuda.amp.autocast(a or b)", f'{KEPT}\nc = torch.autocast(device_type=device.type, enabled=(a or b) and device.type != "cpu")'),
        ("if torch.cuda.is_available():\n    c = torch.cuda.amp.autocast(amp)", f"if {AVAILABLE}:\n    {KEPT}\n    c = torch.autocast(device_type=device.type, enabled=amp)"),
        ("s = torch.cuda.amp.GradScaler()", f"{KEPT}\ns = torch.amp.GradScaler(device.type, enabled=torch.get_autocast_dtype(device.type) == torch.float16)"),
        ('s = torch.amp.GradScaler("cuda", enabled=dtype == "float16")', f'{KEPT}\ns = torch.amp.GradScaler(device.type, enabled=dtype == "float16" and device.type != "cpu")'),
        ('def f(device):\n    s = torch.cuda.amp.GradScaler()\n    with torch.autocast(device.type if device.type != "mps" else "cpu"):\n        g()', 'def f(device):\n    s = torch.amp.GradScaler(device.type, enabled=torch.get_autocast_dtype(device.type if device.type != "mps" else "cpu") == torch.float16)\n    with torch.autocast(device.type if device.type != "mps" else "cpu"):\n        g()'),
        # what the function is given
        ("def f(m, x, device):\n    with torch.cuda.amp.autocast():\n        return m(x.to(device)), device.type", 'def f(m, x, device):\n    with torch.autocast(device_type=device.type, enabled=device.type != "cpu"):\n        return m(x.to(device)), device.type'),
        ("class A(nn.Module):\n    def forward(self, x):\n        with torch.cuda.amp.autocast():\n            return x.unsqueeze(0) @ x", 'class A(nn.Module):\n    def forward(self, x):\n        with torch.autocast(device_type=x.device.type, enabled=x.device.type != "cpu"):\n            return x.unsqueeze(0) @ x'),
        ("class A(nn.Module):\n    def forward(self, batch):\n        with torch.cuda.amp.autocast():\n            return self.net(batch)", f'class A(nn.Module):\n    def forward(self, batch):\n        {KEPT}\n        with torch.autocast(device_type=device.type, enabled=device.type != "cpu"):\n            return self.net(batch)'),
        # what only CUDA has, and fails elsewhere, runs where CUDA is; a part of a statement stays
        ("print(torch.cuda.memory_summary())", "if torch.cuda.is_available():\n    print(torch.cuda.memory_summary())"),
        ("torch.cuda.reset_peak_memory_stats()", "if torch.cuda.is_available():\n    torch.cuda.reset_peak_memory_stats()"),
        ('torch.cuda.nvtx.range_push("step")', 'if torch.cuda.is_available():\n    torch.cuda.nvtx.range_push("step")'),
        ("s = torch.cuda.memory_summary()", "s = torch.cuda.memory_summary()"),
        ("if torch.cuda.is_available():\n    print(torch.cuda.memory_summary())", "if torch.cuda.is_available():\n    print(torch.cuda.memory_summary())"),
        ("s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    f()", "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    f()"),
        # a host that took the CPU goes on to: MPS has no float64, and pins no memory
        ('x = x.double()\nd = "cuda" if torch.cuda.is_available() else "cpu"', 'x = x.double()\nd = "cuda" if torch.cuda.is_available() else "cpu"'),
        ("x = torch.zeros(2, dtype=torch.float64)\nif torch.cuda.is_available():\n    x = x.cuda()", "x = torch.zeros(2, dtype=torch.float64)\nif torch.cuda.is_available():\n    x = x.cuda()"),
        # what a check does not guard stays with it: the host would compute on two devices
        ("def f(x):\n    return x.cuda().double()\non = torch.cuda.is_available()", "def f(x):\n    return x.cuda().double()\non = torch.cuda.is_available()"),
        ("def f(x):\n    return x.cuda()\nd = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nt = torch.zeros(2, dtype=torch.float64)", "def f(x):\n    return x.cuda()\nd = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nt = torch.zeros(2, dtype=torch.float64)"),
        ('t = torch.zeros(2, dtype=torch.float64, device="cuda")', f"{NEEDED}\nt = torch.zeros(2, dtype=torch.float64, device=device)"),
        ('if device.type == "cuda":\n    x = x.pin_memory()', 'if device.type not in ("cpu", "mps"):\n    x = x.pin_memory()'),
        ("if torch.cuda.is_available():\n    x = x.pin_memory().cuda()", "if torch.cuda.is_available():\n    x = x.pin_memory().cuda()"),
        # a numbered device that is given up where there is no CUDA
        ('device = f"cuda:{n}"\nif not torch.cuda.is_available():\n    device = "cpu"', 'device = f"cuda:{n}"\nif not torch.cuda.is_available():\n    device = "cpu"'),
        ('place = "cuda:%d" % n\nx = torch.load(p, map_location=place)\nplace = "cuda:%d" % n', f'{NEEDED}\nplace = f"{{device.type}}:{{n}}"\nx = torch.load(p, map_location=place)\nplace = f"{{device.type}}:{{n}}"'),
        ('if host:\n    device = "cpu"\nelse:\n    device = f"cuda:{n}"', f'if host:\n    device = "cpu"\nelse:\n    device = f"{{{DEFAULT}.type}}:{{n}}"'),
        ('x = x.double()\nif x.device.type == "mps":\n    pass\nd = "cuda" if torch.cuda.is_available() else "cpu"', f'x = x.double()\nif x.device.type == "mps":\n    pass\nd = {CHOICE}'),
        # the device of a tensor
        ('d = torch.device("cuda") if x.is_cuda else torch.device("cpu")', "d = x.device"),
        ('d = torch.device("cuda" if x.is_cuda else "cpu")', "d = x.device"),
        ('d = "cuda" if x.is_cuda else "cpu"', "d = x.device.type"),
        ('d = (torch.device("cuda")\n     if x.is_cuda\n     else torch.device("cpu"))', "d = x.device"),
        # what builds kernels for CUDA, and what has them
        ('from torch.utils.cpp_extension import load\nif torch.cuda.is_available():\n    gpu = load("gpu", ["a.cpp", "b.cu"])', 'from torch.utils.cpp_extension import load\nif torch.cuda.is_available():\n    gpu = load("gpu", ["a.cpp", "b.cu"])'),
        ("from .. import src\nif x.is_cuda:\n    src.gpu.forward(x)\nelse:\n    src.cpu.forward(x)", "from .. import src\nif x.is_cuda:\n    src.gpu.forward(x)\nelse:\n    src.cpu.forward(x)"),
        # the scaler of a flag is on where autocast computes in float16
        ("s = torch.cuda.amp.GradScaler() if fp16 else None", f"{KEPT}\ns = torch.amp.GradScaler(device.type, enabled=torch.get_autocast_dtype(device.type) == torch.float16) if fp16 else None"),
        ("def f(m, x):\n    x = x.unsqueeze(0)\n    with torch.cuda.amp.autocast(enabled=False):\n        return m(x)", "def f(m, x):\n    x = x.unsqueeze(0)\n    with torch.autocast(device_type=x.device.type, enabled=False):\n        return m(x)"),
        ("def f(x):\n    # about the move\n    return x.cuda()", f"def f(x):\n    {NEEDED}\n    # about the move\n    return x.to(device)"),
        ("def f(m, x):\n    x = x.unsqueeze(0)\n    m.train()\n    with torch.cuda.amp.autocast():\n        return m(x)", 'def f(m, x):\n    x = x.unsqueeze(0)\n    m.train()\n    with torch.autocast(device_type=x.device.type, enabled=x.device.type != "cpu"):\n        return m(x)'),
        ("def f(m):\n    m.cuda()\n    with torch.cuda.amp.autocast():\n        return m.forward()", f'def f(m):\n    {NEEDED}\n    m.to(device)\n    with torch.autocast(device_type=device.type, enabled=device.type != "cpu"):\n        return m.forward()'),
        ("def f(m):\n    m.train()\n    with torch.cuda.amp.autocast():\n        return m.loss()", f'def f(m):\n    m.train()\n    {KEPT}\n    with torch.autocast(device_type=device.type, enabled=device.type != "cpu"):\n        return m.loss()'),
        ('device = torch.device(hp.device)\ndef f(m):\n    return m.cuda()', "device = torch.device(hp.device)\ndef f(m):\n    return m.to(device)"),
        ("class A:\n    def __init__(self, device):\n        self.device = device\n    def f(self, m, x):\n        x = x.to(self.device)\n        with torch.cuda.amp.autocast():\n            return m(x)", 'class A:\n    def __init__(self, device):\n        self.device = device\n    def f(self, m, x):\n        x = x.to(self.device)\n        with torch.autocast(device_type=torch.device(self.device).type, enabled=torch.device(self.device).type != "cpu"):\n            return m(x)'),
        ('def f(backend="nccl"):\n    dist.init_process_group(backend)', f"def f(backend=None):\n    if backend is None:\n        {NEEDED}\n        backend = dist.get_default_backend_for_device(device)\n    dist.init_process_group(backend)"),
        ('def f(backend="nccl"):\n    if host:\n        backend = "gloo"\n    dist.init_process_group(backend)', 'def f(backend="nccl"):\n    if host:\n        backend = "gloo"\n    dist.init_process_group(backend)'),
        ("def f(m, x):\n    x = x.cuda().unsqueeze(0)\n    with torch.cuda.amp.autocast():\n        return m(x)", f'def f(m, x):\n    {NEEDED}\n    x = x.to(device).unsqueeze(0)\n    with torch.autocast(device_type=device.type, enabled=device.type != "cpu"):\n        return m(x)'),
        # a number that may be left out is the current device for `.cuda`
        ("def f(x, rank=None):\n    return x.cuda(rank)", f"def f(x, rank=None):\n    return x.to(rank if rank is not None else {DEFAULT})"),
        ('p.add_argument("--gpu", type=int)\nargs = p.parse_args()\nif args.gpu is not None:\n    x = x.cuda(args.gpu)', 'p.add_argument("--gpu", type=int)\nargs = p.parse_args()\nif args.gpu is not None:\n    x = x.to(args.gpu)'),
        ('p.add_argument("--gpu", type=int)\nargs = p.parse_args()\nx = x.cuda(args.gpu)', f'p.add_argument("--gpu", type=int)\nargs = p.parse_args()\nx = x.to(args.gpu if args.gpu is not None else {DEFAULT})'),
        ('p.add_argument("--gpu", type=int, default=0)\nargs = p.parse_args()\nx = x.cuda(args.gpu)', 'p.add_argument("--gpu", type=int, default=0)\nargs = p.parse_args()\nx = x.to(args.gpu)'),
        # two checks of which one prepares what the other uses
        ('if torch.cuda.is_available():\n    text = "{m}"\nelse:\n    text = ""\nif torch.cuda.is_available():\n    print(text.format(m=torch.cuda.max_memory_reserved()), torch.cuda.memory_summary())', 'if torch.cuda.is_available():\n    text = "{m}"\nelse:\n    text = ""\nif torch.cuda.is_available():\n    print(text.format(m=torch.cuda.max_memory_reserved()), torch.cuda.memory_summary())'),
        # an option for the backend
        ('p.add_argument("--backend", default="nccl")\nargs = p.parse_args()\ndist.init_process_group(args.backend)', f'p.add_argument("--backend", default=None)\nargs = p.parse_args()\ndist.init_process_group(args.backend or dist.get_default_backend_for_device({DEFAULT}))'),
        ('p.add_argument("--backend", default="nccl")\nargs = p.parse_args()\nprint(args.backend)\ndist.init_process_group(args.backend)', 'p.add_argument("--backend", default="nccl")\nargs = p.parse_args()\nprint(args.backend)\ndist.init_process_group(args.backend)'),
        ("def f(m, x, device):\n    with torch.cuda.amp.autocast():\n        return m(x.to(device))", 'def f(m, x, device):\n    with torch.autocast(device_type=torch.device(device).type, enabled=torch.device(device).type != "cpu"):\n        return m(x.to(device))'),
        ("try:\n    f()\nexcept torch.cuda.OutOfMemoryError:\n    pass", "try:\n    f()\nexcept torch.OutOfMemoryError:\n    pass"),
        ('if x.device.type != "cuda":\n    raise RuntimeError("works on CUDA")', 'if x.device.type == "cpu":\n    raise RuntimeError("works on an accelerator")'),
        ("e = torch.cuda.Event()\nwith torch.cuda.stream(s):\n    e.record(torch.cuda.current_stream())", "e = torch.cuda.Event()\nwith torch.cuda.stream(s):\n    e.record(torch.cuda.current_stream())"),
        ('device = torch.device(f"cuda:{rank:d}")', f'device = torch.device(f"{{{DEFAULT}.type}}:{{rank}}")'),
        # ranks
        ('dist.init_process_group("nccl")', f"{NEEDED}\ndist.init_process_group(dist.get_default_backend_for_device(device))"),
        ('if args.backend == "nccl":\n    pass', 'if args.backend == "nccl":\n    pass'),
        ("x = x.to(rank)", "x = x.to(rank)"),
        ("torch.cuda.set_device(rank)\nx = x.cuda(rank)", "torch.accelerator.set_device_index(rank)\nx = x.to(rank)"),
        ("torch.cuda.set_device(rank)\nm = nn.parallel.DistributedDataParallel(m, device_ids=[rank])", "torch.accelerator.set_device_index(rank)\nm = nn.parallel.DistributedDataParallel(m, device_ids=[rank])"),
        ("m = nn.parallel.DistributedDataParallel(m, device_ids=[torch.cuda.current_device()])", "m = nn.parallel.DistributedDataParallel(m, device_ids=[torch.accelerator.current_device_index()])"),
        ('device = f"cuda:{rank}"', f'device = f"{{{DEFAULT}.type}}:{{rank}}"'),
        ('torch.cuda.set_device(torch.device("cuda", rank))', "torch.accelerator.set_device_index(torch.device(rank))"),
    ],
)  # fmt: skip
def test_the_form_of_a_maintainer(before: str, after: str) -> None:
    assert body(before) == after


SET = "torch.cuda.set_device({0})\n"
#: What names the process's own card, by what becomes of it once the file has set that card: a number alone names no vendor.
OWN_CARD = {
    **{
        form: form
        for form in (
            "m = DDP(m, device_ids=[{0}])",
            "m = DDP(m, [{0}], {0})",
            "m = DDP(m, device_ids=[{0}], output_device={0})",
            "m = DDP(m, device_ids=[{0}] if many else None)",
            "m = DDP(m, **dict(device_ids=[{0}]))",
        )
    },
    's = torch.load(p, map_location=f"cuda:{{{0}}}")': f"s = torch.load(p, map_location={CURRENT})",
    'place = f"cuda:{{{0}}}"\ns = torch.load(p, place)': f"place = {CURRENT}\ns = torch.load(p, place)",
    's = torch.load(p, map_location="cuda:%d" % {0})': f"s = torch.load(p, map_location={CURRENT})",
}


@pytest.mark.parametrize("number", ["rank", "args.local_rank", 'int(os.environ["LOCAL_RANK"])', "dist.get_rank()"])  # fmt: skip
@pytest.mark.parametrize("form", OWN_CARD)
def test_the_number_of_the_own_card(form: str, number: str) -> None:
    """Gaudi's is 0, whatever the rank: a text that names CUDA becomes the current one, a number stays, and is reported."""
    start = "import os\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    if "cuda:{" in form and '"' in number:
        number = number.replace('"', "'")
    before = form.format(number)
    after = f"torch.accelerator.set_device_index({number})\n{OWN_CARD[form].format(number) if 'DDP' in form else OWN_CARD[form]}"
    assert body(start + SET.format(number) + before) == start + after
    alone = [f for f in written(HEAD + start + before).findings if f.code == "HPU306"]
    assert [f.safety for f in alone] == (["unsafe"] if "DDP" in form else [])


ON_THE_CPU = [
    'device = "cuda" if torch.cuda.is_available() else "cpu"\nx = x.to(device)\nprint(device)',
    'device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")\nprint(device.type, x.to(device).device)',
    "if torch.cuda.is_available():\n    x = x.cuda()\nprint(x.is_cuda, x.device)",
    "cuda = True if torch.cuda.is_available() else False\nTensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor\nprint(Tensor([1, 2]) + x)",
    "print(torch.cuda.device_count(), torch.cuda.memory_allocated())\ntorch.cuda.manual_seed_all(1)\ntorch.cuda.empty_cache()",
    "scaler = torch.cuda.amp.GradScaler()\nloss = x.pow(2).sum()\nprint(scaler.is_enabled(), scaler.scale(loss))",
    "with torch.cuda.amp.autocast():\n    print((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)",
    "with torch.autocast('cuda', dtype=torch.bfloat16):\n    print((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)",
    'backend = "nccl" if torch.cuda.is_available() else "gloo"\nprint(backend)',
    'print("gpu" if x.device.type == "cuda" else "host", x.device.type != "cuda", "cuda" in str(x.device))',
    'state = torch.load("s.pt", map_location="cuda" if torch.cuda.is_available() else "cpu")\nprint(state.device)',
    "class A(nn.Module):\n    def forward(self, x):\n        return x.cuda() if torch.cuda.is_available() else x\nprint(A()(x).device)",
]


def test_on_the_cpu_nothing_changes(tmp_path: object) -> None:
    pytest.importorskip("torch")
    start = f'{HEAD}import warnings\nwarnings.simplefilter("ignore")\nx = torch.ones(2)\ntorch.save(x, "s.pt")\n'
    texts = [start + text + "\n" for text in ON_THE_CPU]
    after = [written(text).text for text in texts]
    assert all(new != old for new, old in zip(after, texts, strict=True))
    said = []
    for programs in (texts, after):
        joined = "\n".join(f"exec({text!r}, {{}})" for text in programs)
        done = subprocess.run([sys.executable, "-c", joined], capture_output=True, text=True, check=False, cwd=str(tmp_path), env={"HPUSHIM": "off", "PATH": ""})  # fmt: skip
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1] != ""


@pytest.mark.parametrize("style", ["dual", "agnostic"])
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("run.sh", "CUDA_VISIBLE_DEVICES=2 python train.py --device cuda --backend nccl\n"),
        ("config.yaml", "device: cuda\nbackend: nccl\nfp16: true\n"),
    ],
)
def test_launchers_and_settings_stay_and_are_reported(path: str, text: str, style: Style) -> None:
    after = written(text, style, path)
    assert after.text == text
    assert after.findings


@pytest.mark.parametrize("text", ["def f(x, rank):\n    return x.to(rank)", "def f(device):\n    return torch.amp.GradScaler(device.type, enabled=torch.get_autocast_dtype(device.type) == torch.float16)"])  # fmt: skip
def test_what_is_neutral_is_not_reported(text: str) -> None:
    assert not written(HEAD + text + "\n").findings


def test_a_default_of_a_command_is_resolved_in_its_body() -> None:
    text = "import click\n@click.command()\n@click.option('--seed')\ndef main(seed, device=torch.device('cuda')):\n    return torch.zeros(2, device=device)"
    assert "device=None):\n    if device is None:\n        device = accelerator or error" in body(
        text
    )


def test_a_file_without_torch_keeps_its_words() -> None:
    assert written('DEFAULTS = {"device": "cuda"}\nconfig = dict(device="cuda")\n').text.count("cuda") == 2  # fmt: skip


def test_the_function_is_defined_once_above_its_uses() -> None:
    text = written("from torch import nn\n\n\ndef f(x):\n    return x.cuda()\n\n\ndef g():\n    return nn.Linear(2, 2).cuda()\n").text  # fmt: skip
    assert text.count(FUNCTION) == 1 and text.count("import torch\n") == 1
    assert text.index("import torch\n") < text.index(FUNCTION) < text.index("def f")


@pytest.mark.parametrize("gap", ["", "\n", "\n\n", "\n\n\n"])
@pytest.mark.parametrize("between", ["", "A = 3\n", "# about f\n", "try:\n    import a\nexcept ImportError:\n    a = None\n"])  # fmt: skip
def test_the_function_stands_between_two_empty_lines(gap: str, between: str) -> None:
    uses = "def f(x):\n    return x.cuda()\ndef g(x):\n    return x.cuda()\n"
    for start in ("import torch\n", '"""Text."""\nimport os\nimport torch\nimport a\n'):
        text = written(start + between + gap + uses).text
        above, below = text.split(FUNCTION)
        assert above.endswith("\n\n\n") and not above.endswith("\n" * 4)
        assert below.startswith("\n\n") and below.lstrip("\n").startswith(("def f", "# about f"))


SCRIPTS = {
    "utils.py": "import os\nimport torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n",
    "train.py": "import torch\nimport utils\n\n\ndef f(x):\n    return x.cuda()\n",
    "test.py": "import torch\n\n\ndef f(x):\n    return x.cuda()\n",
    "tool/run.py": "import torch\n\n\ndef f(x):\n    return x.cuda()\n",
}  # fmt: skip


@pytest.mark.parametrize("heavy", [False, True])
def test_scripts_share_what_is_light_beside_them(tmp_path: Path, heavy: bool) -> None:
    for path, text in SCRIPTS.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("import cv2\n" + text if heavy else text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {path: (tmp_path / path).read_text() for path in SCRIPTS}
    shared = [
        path for path, text in after.items() if "from utils import accelerator_device" in text
    ]
    assert shared == (["train.py"] if heavy else ["train.py", "test.py"]) * (not heavy)
    assert ("def accelerator_device" in after["utils.py"]) is not heavy


PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/utils.py": "import torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n",
    "pkg/train.py": "import torch\n\nfrom .utils import seed\n\n\ndef f(x):\n    seed(1)\n    return x.cuda()\n",
    "pkg/test.py": "import torch\n\nfrom pkg import utils\n\n\ndef f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda()\n",
    "pkg/alone.py": "import torch\n\n\ndef f(x):\n    return x.cuda()\n",
}  # fmt: skip


@pytest.mark.parametrize("change", [{}, {"pkg/alone.py": None}, {"pkg/utils.py": PACKAGE["pkg/utils.py"].replace("import torch\n", "import torch\n\nfrom . import train\n")}, {"pkg/utils.py": "import numpy\n\n\ndef seed(n):\n    numpy.random.seed(n)\n"}])  # fmt: skip
def test_one_file_of_a_package_has_the_function(tmp_path: Path, change: dict[str, str | None]) -> None:  # fmt: skip
    files = {path: text for path, text in (PACKAGE | change).items() if text is not None}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    report = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {path: (tmp_path / path).read_text() for path in files}
    asked = [path for path, text in after.items() if "from .utils import" in text and DEFAULT[:-2] in text]  # fmt: skip
    if "from . import train" in files["pkg/utils.py"]:
        assert "def accelerator_device" not in after["pkg/utils.py"]
    else:
        assert sum("def accelerator_device" in text for text in after.values()) == 1
        assert "from .utils import seed, accelerator_device\n" in after["pkg/train.py"]
        assert "from pkg.utils import accelerator_device\n" in after["pkg/test.py"]
        assert asked == ["pkg/train.py"]
        assert ("from .utils" in after.get("pkg/alone.py", "")) is False
    again = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert not [file for file in again.files if file.status == "changed"]
    (tmp_path / "pkg/new.py").write_text("import torch\n\nfrom .utils import seed\n\n\ndef f(x):\n    return x.cuda()\n")  # fmt: skip
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    if "def accelerator_device" in after["pkg/utils.py"]:
        assert "import seed, accelerator_device\n" in (tmp_path / "pkg/new.py").read_text()
    while undo(tmp_path).run:
        pass
    assert {path: (tmp_path / path).read_text() for path in files} == files
    assert report.files


def test_a_name_of_a_star_import_is_not_taken() -> None:
    text = written("import torch\nfrom settings import *\n\nx = torch.ones(2).cuda().to(accelerator_device())\n\n\ndef f(y):\n    return y.cuda()\n\n\ndef g(y):\n    return y.cuda()\n").text  # fmt: skip
    assert "def current_accelerator_device" in text and "def accelerator_device" not in text


def test_messages_say_the_neutral_form() -> None:
    (finding,) = [f for f in written(HEAD + "torch.cuda.synchronize()\n").findings if f.applied]
    assert "torch.accelerator.synchronize" in finding.message and "Gaudi" not in finding.message


def test_check_leaves_out_what_concerns_gaudi_alone_and_sarif_keeps_its_runs_apart(tmp_path: Path) -> None:  # fmt: skip
    (tmp_path / "train.py").write_text(
        "import torch\n\n\ndef run(model, loader, opt):\n    model.cuda()\n    name = torch.cuda.get_device_name(0)\n"
        "    for x in loader:\n        loss = model(x).sum()\n        opt.zero_grad()\n        loss.backward()\n        opt.step()\n        print(loss.item(), name)\n"
    )
    sarif = {}
    for style in ("native", "agnostic"):
        words = ("check", "--style", style, "--format", "sarif", "--exit-zero", str(tmp_path))
        done = subprocess.run([sys.executable, "-m", "hpushim", *words], capture_output=True, text=True, check=True)  # fmt: skip
        (sarif[style],) = json.loads(done.stdout)["runs"]
    rules = {style: {each["id"] for each in run["tool"]["driver"]["rules"]} for style, run in sarif.items()}  # fmt: skip
    assert {"HPU102", "HPU112"} <= rules["agnostic"] < rules["native"]
    assert not [rule for rule in rules["agnostic"] if rule.startswith(("HPU5", "HPU118"))]
    assert sarif["agnostic"]["automationDetails"] == {"id": "hpushim/agnostic/"}
    assert "automationDetails" not in sarif["native"]
    assert "Gaudi" not in json.dumps(sarif["agnostic"]["results"])


@pytest.mark.parametrize("step", ["  ", "   ", "    ", "        ", "\t"])
@pytest.mark.parametrize("text", ["def f(x):\n@return x.cuda()\ndef g(x):\n@return x.cuda()\n", "def f(device=torch.device('cuda')):\n@return device\n", "class A:\n@def f(self, a_long_name_of_a_tensor, another_long_name):\n@@return a_long_name_of_a_tensor.cuda() + another_long_name.cuda()\n", "if many:\n@print(torch.cuda.memory_summary())\n"])  # fmt: skip
def test_what_is_added_is_indented_as_the_file_is(text: str, step: str) -> None:
    after = written("import torch\n\n\n" + text.replace("@", step)).text
    depths = [line[: len(line) - len(line.lstrip())] for line in after.splitlines()]
    assert {depth.replace(step, "@") for depth in depths} <= {"", "@", "@@", "@@@", "@@@@"}
    assert after.count("\n") > text.count("\n") + 3


HELPERS = "import os\n\n\ndef lines(path):\n    return open(path).readlines()\n"
USER = "import torch\nfrom utils import lines\n\n\ndef f(x):\n    return x.cuda()\n"


@pytest.mark.parametrize(
    ("files", "shared"),
    [
        ({"utils.py": HELPERS, "a.py": USER, "b.py": USER}, ["utils.py"]),
        ({"utils.py": HELPERS, "a.py": USER, "b.py": USER, "export.py": "from utils import lines\n"}, ["utils.py"]),
        ({"utils.py": HELPERS, "a.py": USER, "b.py": USER, "setup.py": "import setuptools\nfrom utils import lines\n"}, []),
        ({"utils.py": HELPERS.replace("import os\n", ""), "a.py": USER, "b.py": USER}, []),
        ({"lines.py": HELPERS, "a.py": USER.replace("utils", "lines"), "b.py": USER.replace("utils", "lines")}, []),
        # beside a module that is imported
        ({"util/lines.py": HELPERS, "util/show.py": USER.replace("from utils import lines\n", "") + USER[-30:].replace("f(", "g("), "a.py": USER.replace("utils", "util.lines")}, ["util/show.py"]),
        ({"util/lines.py": HELPERS, "util/show.py": "import cv2\n" + USER.replace("from utils import lines\n", "") + USER[-30:].replace("f(", "g("), "a.py": USER.replace("utils", "util.lines")}, ["util/show.py"]),
    ],
)  # fmt: skip
def test_a_module_of_helpers_gets_the_function(tmp_path: Path, files: dict[str, str], shared: list[str]) -> None:  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {path: (tmp_path / path).read_text() for path in files}
    assert [path for path, text in after.items() if "def accelerator_device" in text] == shared
    light = not any("import cv2" in text for text in after.values())
    asked = [path for path, text in after.items() if re.search("import.* accelerator_device", text)]
    assert asked == [path for path in ("a.py", "b.py") if path in files and shared and light]
    assert all("import torch\n" in after[path] for path in shared)
    again = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert not [file for file in again.files if file.status == "changed"]
    alone = migrate([tmp_path / "a.py"], Target(style="agnostic"), allow_dirty=True)
    assert not [f for file in alone.files for f in file.findings if f.code == "HPU726"]


WITHOUT = ["if torch.cuda.is_available():\n    pass", "n = 2 if torch.cuda.device_count() > 0 else 1", 'd = "cpu" if host else x.device', 'd = torch.device("cpu") if host else x.device', 'p.add_argument("--device", default="cpu")', "if x.is_cuda:\n    pass"]  # fmt: skip
MOVES = ["def f(x):\n    return x.cuda()", 'def f(x):\n    return x.to("cuda")', 'def f():\n    return torch.ones(2, device="cuda")', 'def f(x):\n    return x.to(torch.device("cuda"))']  # fmt: skip


@pytest.mark.parametrize("without", ["", "print(torch.cuda.device_count())", 'x = torch.load(p, map_location="cpu")', *WITHOUT])  # fmt: skip
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("move", MOVES)
def test_the_cpu_takes_no_place_where_cuda_was_needed(tmp_path: Path, move: str, elsewhere: bool, without: str) -> None:  # fmt: skip
    (tmp_path / "a.py").write_text(f"import torch\n\n\n{move}\n" + "" if elsewhere else f"import torch\n\n\n{move}\n{without}\n")  # fmt: skip
    (tmp_path / "b.py").write_text(f"import torch\n\n{without}\n" if elsewhere else "")
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    text = (tmp_path / "a.py").read_text()
    assert ("no accelerator is available" in text) is (without not in WITHOUT)
    assert ('torch.device("cpu")' in text.replace(without, "")) is (without in WITHOUT)


def test_a_file_that_only_has_autocast_goes_on_without_an_accelerator() -> None:
    assert "raise" not in body(
        "def f(m):\n    with torch.cuda.amp.autocast():\n        return m.loss()"
    )


#: What holds the device, around the statements of a function that already moves ``y`` there.
HOLDERS = {
    "device": "def f(x, y, m, device):\n    {use}\n    y = y.to(device)\n    return x, y",
    "args.device": "def f(x, y, m, args):\n    {use}\n    y = y.to(args.device)\n    return x, y",
    "self.device": "class A(B):\n    def f(self, x, y, m):\n        {use}\n        return x, y\n    def g(self, y):\n        return y.to(self.device)",
    "self.model.device": "class A:\n    def __init__(self, model):\n        self.model = model\n    def f(self, x, y, m):\n        {use}\n        return x, y\n    def g(self, y):\n        return y.to(self.model.device)",
    "accelerator.device": "from accelerate import Accelerator\ndef f(x, y, m):\n    accelerator = Accelerator()\n    {use}\n    return x, y",
    "settings.DEVICE": "import settings\ndef f(x, y, m):\n    {use}\n    return x, y\ndef g(y):\n    return y.to(settings.DEVICE)",
}  # fmt: skip
USES = {
    "x = x.cuda()": "x = x.to({0})",
    "x = x.cuda(non_blocking=True)": "x = x.to({0}, non_blocking=True)",
    'x = torch.zeros(2, device="cuda")': "x = torch.zeros(2, device={0})",
    'x = x.to("cuda")': "x = x.to({0})",
    "s = torch.is_autocast_enabled()": "s = torch.is_autocast_enabled({1})",
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("use", USES)
def test_what_other_things_are_moved_to_is_reused(holder: str, use: str) -> None:
    kind = f"{holder}.type" if holder == "accelerator.device" else f"torch.device({holder}).type"
    after = USES[use].format(holder, kind)
    assert body(HOLDERS[holder].format(use=use)) == HOLDERS[holder].format(use=after)


@pytest.mark.parametrize(
    "text",
    [
        # it may be none, is a tensor's that may lie on the CPU, is the CPU, comes later, is of another function or object
        "def f(x, y, device=None):\n    x = x.cuda()\n    return x, y.to(device)",
        "def f(x, y, device=None):\n    x = x.cuda()\n    device = device or g()\n    return x, y.to(device)",
        "def f(self, i):\n    i = i.to(self.data.device)\n    return self.data[i].cuda()",
        'device = torch.device("cpu")\ndef f(x, y):\n    x = x.cuda()\n    return x, y.to(device)',
        "def f(x, y, cpu_device):\n    x = x.cuda()\n    return x, y.to(cpu_device)",
        "def f(x):\n    return x.cuda()\ndef g(y, device):\n    return y.to(device)",
        "class A(B):\n    def __init__(self, x):\n        self.x = x.cuda()\n    def f(self, y):\n        return y.to(self.device)",
        "class A(B):\n    def f(self, x):\n        return x.cuda()\n    def set(self, y, device):\n        self.device = device\n        return y.to(self.device)",
    ],
)  # fmt: skip
def test_what_may_be_another_device_is_not(text: str) -> None:
    after = written(HEAD + text).text
    assert any(word in after for word in ("_device()", "current_accelerator()"))


@pytest.mark.parametrize("made", ["torch.rand(x.size(0))", "torch.zeros(2, *x.shape[1:])", "torch.ones(x.shape[0], 2)"])  # fmt: skip
@pytest.mark.parametrize(("line", "same"), [("", True), ("x = x + 1", True), ("x = x.cpu()", False), ("x = x.cuda()", False), ("nn.utils.rnn.pack_padded_sequence(y, x)", False)])  # fmt: skip
def test_a_new_tensor_of_the_size_of_another_goes_where_that_is(made: str, line: str, same: bool) -> None:  # fmt: skip
    text = f"class A(nn.Module):\n    def forward(self, x, y):\n        a = {made}.cuda()\n        {line}\n        return a"
    assert (f"{made}.to(x.device)" in body(text)) is same


@pytest.mark.parametrize("base", ["Base", "Middle"])
def test_the_device_of_a_base_class_is_reused(tmp_path: Path, base: str) -> None:
    (tmp_path / "base.py").write_text("import torch\n\n\nclass Base:\n    def __init__(self, opt):\n        self.device = torch.device('cuda' if opt['gpus'] else 'cpu')\n\n\nclass Middle(Base):\n    pass\n")  # fmt: skip
    (tmp_path / "model.py").write_text(f"import torch\nfrom base import {base}\n\n\nclass Model({base}):\n    def __init__(self, opt, x):\n        super().__init__(opt)\n        self.x = x.cuda()\n\n    def step(self, y):\n        return y.cuda()\n")  # fmt: skip
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = (tmp_path / "model.py").read_text()
    assert after.count(".to(self.device)") == 2 and "accelerator" not in after


@pytest.mark.parametrize("loaded", ["try:\n    import _ours as _backend\nexcept ImportError:\n    from .backend import _backend\n", "import _ours as _backend\n"])  # fmt: skip
@pytest.mark.parametrize("guard", ["if not x.is_cuda: x = x.cuda()", 'assert x.is_cuda, "CUDA only"', "x = x.cuda()", 'out = torch.empty(3, device="cuda")'])  # fmt: skip
@pytest.mark.parametrize("kernel", [True, False])
def test_what_wraps_a_kernel_stays_whole(tmp_path: Path, loaded: str, guard: str, kernel: bool) -> None:  # fmt: skip
    (tmp_path / "setup.py").write_text("from torch.utils.cpp_extension import CUDAExtension\n\next = CUDAExtension(name='_ours', sources=['a.cu'])\n")  # fmt: skip
    call = "_backend.forward(x)" if kernel else "x.exp()"
    base = "Function" if kernel else "nn.Module"
    text = f"import torch\nfrom torch import nn\nfrom torch.autograd import Function\n{loaded}\n\nclass F({base}):\n    def forward(self, x):\n        {guard}\n        return {call}\n"
    (tmp_path / "ours.py").write_text(text)
    report = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = (tmp_path / "ours.py").read_text()
    assert (after == text) is kernel
    said = [f.message for file in report.files for f in file.findings if file.path == "ours.py"]
    assert (
        any(
            "serves a kernel" in each or "no neutral" in each or "is not changed" in each
            for each in said
        )
        is kernel
    )


LONG = "a_rather_long_name_of_a_model_that_is_trained"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"with torch.cuda.amp.autocast(enabled=own.{LONG[:20]}):\n    pass", f'with torch.autocast(\n    device_type=device.type, enabled=own.{LONG[:20]} and device.type != "cpu"\n):\n    pass'),
        (f"with torch.cuda.amp.autocast(enabled={LONG[:30]} and {LONG[:40]}):\n    pass", f'with torch.autocast(\n    device_type=device.type,\n    enabled={LONG[:30]} and {LONG[:40]} and device.type != "cpu",\n):\n    pass'),
        (f"with torch.cuda.amp.autocast(enabled={LONG} and {LONG}):\n    pass", None),
        (f"net = Network(first={LONG}, second=3).cuda()", None),
        (f"near, far = Network(first={LONG}).cuda(), a.cuda()", None),
        (f'p.add_argument(\n    "--no-cuda", action="store_true", help="{LONG}"\n)', f'p.add_argument(\n    "--no-accel",\n    "--no-cuda",\n    action="store_true",\n    help="{LONG}",\n    dest="no_cuda",\n)'),
        (f"network = Network(first={LONG}, second=(3, 45)).cuda()", f"network = Network(\n    first={LONG}, second=(3, 45)\n).to(device)"),
        (f"network = Network(first={LONG}, sec=(3, 45)).cuda()  # why", None),
        (f'x = torch.zeros(3, device="cuda"); {LONG} = {LONG}', None),
        (f"def f(x):\n\tnetwork = Network(first={LONG}, second=(3, 45)).cuda()", None),
        ('print("' + 130 * "x" + f'")\nnetwork = Network(first={LONG}, second=(3, 45)).cuda()', None),
    ],
)  # fmt: skip
def test_lines_that_became_too_long_are_broken(before: str, after: str | None) -> None:
    start = (
        'import torch\n\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    )
    text = written(start + before + "\n").text
    made = text[text.index(before.split("torch", maxsplit=1)[0][:8]) :]
    assert made.removesuffix("\n") == after if after else made.count("\n") == before.count("\n") + 1


@pytest.mark.parametrize(("path", "beside"), [("requirements.txt", "xformers{0}\n"), ("environment.yml", "dependencies:\n  - {1}\n"), ("docs/requirements.txt", "torchvision{0}\n")])  # fmt: skip
@pytest.mark.parametrize(("pin", "conda", "old"), [("==0.0.19", "pytorch-cuda=11.7", True), ("<0.0.20", "python=3.8", True), (">=0.0.19", "python=3.10", False), ("==0.30", "numpy=1.21", False), ("", "python>=3.8", False)])  # fmt: skip
def test_the_oldest_torch_is_raised_with_its_partners(tmp_path: Path, path: str, beside: str, pin: str, conda: str, old: bool) -> None:  # fmt: skip
    (tmp_path / "docs").mkdir()
    needs = tmp_path / path
    lower = "  - pytorch>=1.9\n" if path.endswith("yml") else "torch>=1.9\n"
    needs.write_text(beside.format(pin, conda) + lower)
    (tmp_path / "others.txt").write_text("xformers==0.0.19\n")
    (tmp_path / "train.py").write_text("import torch\n\nx = torch.ones(2).cuda()\n")
    report = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    said = [f.message for file in report.files for f in file.findings if f.code == "HPU820"]
    assert needs.read_text().endswith(lower) is old
    assert any("hpushim does not raise it" in each for each in said) is old


@pytest.mark.parametrize(("text", "free"), [("a = 3\n", True), ("def f(device):\n    device = 3\n", True), ("device = 3\n", False), ("if a:\n    device = 3\n", False), ("from torch import *\n", False), ("from x import device\n", False), ("class A:\n    device = 3\n\n    def f(self):\n        device = 4\n\n\nb = 3\n", True)])  # fmt: skip
@pytest.mark.parametrize("star", ["from settings import *", "from .settings import *", "from elsewhere import *"])  # fmt: skip
def test_a_star_import_is_asked_what_it_brings(tmp_path: Path, text: str, free: bool, star: str) -> None:  # fmt: skip
    (tmp_path / "settings.py").write_text(text)
    (tmp_path / "train.py").write_text(f"import torch\n{star}\n\nfor x in xs:\n    y = x.cuda()\n    z = x.cuda()\n")  # fmt: skip
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    kept = "z = x.to(device)" in (tmp_path / "train.py").read_text()
    assert kept is (free and "elsewhere" not in star)


@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize("use", ["made().to('cuda')", "made().cuda()", "made(device='cuda')"])
@pytest.mark.parametrize("place", ["def f():\n    return {}\n", "class C:\n    def f(self):\n        return {}\n", "f = lambda: {}\n", "x = {}\n", "if made():\n    x = {}\n", "for x in {}:\n    print(x)\n"])  # fmt: skip
def test_what_runs_before_torch_is_imported_keeps_its_word(
    place: str, use: str, below: bool
) -> None:
    """A function runs later; a statement of the file runs where it stands, and torch has no name there."""
    text = place.format(use)
    above = "from mine import made\n"
    after = written(
        f"{above}{text}import torch\n" if below else f"{above}import torch\n{text}"
    ).text
    if below and "return" not in text and "lambda" not in text:
        assert text in after
    elif "device=" not in use:
        assert text not in after
    defined = after.partition("import torch")[0].splitlines()
    assert not [line for line in defined if "torch" in line and not line.startswith(" ") and "lambda" not in line]  # fmt: skip


@pytest.mark.parametrize("before", ["x = x * 2", "x = torch.relu(x)", "x = torch.cat([x, y])"])
def test_what_is_computed_of_tensors_is_where_they_are(before: str) -> None:
    text = f"class A(nn.Module):\n    def forward(self, x, y):\n        {before}\n        a = torch.zeros(x.shape[0], 1).cuda()\n        return a + x"
    assert "torch.zeros(x.shape[0], 1).to(x.device)" in body(text)


@pytest.mark.parametrize("late", ["import math\n", "from typing import Union\n", "import torch.nn as nn\n"])  # fmt: skip
@pytest.mark.parametrize("top", ["import torch\n", "import os\n"])
def test_late_imports_do_not_draw_the_function_down(late: str, top: str) -> None:
    between = "" if top == "import torch\n" else "import torch\n"
    text = f"{top}\n\ndef f(x):\n    return x.cuda()\n\n\n{between}{late}\n\ndef g(x):\n    return x.cuda()\n"
    after = written(text).text
    assert (after.index(FUNCTION) < after.index("def f(")) is (top == "import torch\n")
    assert after.index("import torch\n") < after.index(FUNCTION)


@pytest.mark.parametrize("double", ["", "y.new_tensor(y, dtype=torch.float64)", "y.double()"])
@pytest.mark.parametrize("move", ["y = y.cuda()", 'y = y.to("cuda")', 'y = torch.ones(2, device="cuda")'])  # fmt: skip
def test_a_file_whose_choice_stays_moves_nothing_elsewhere(double: str, move: str) -> None:
    text = f'import torch\n\n\ndef f(p, y):\n    {move}\n    return {double or "y"}\n\n\ndef main(p):\n    p.add_argument("--no-cuda", action="store_true")\n    use_cuda = not p.parse_args().no_cuda and torch.cuda.is_available()\n    return torch.device("cuda" if use_cuda else "cpu")\n'
    assert (written(text).text == text) is bool(double)


@pytest.mark.parametrize("package", ["xformers.ops", "flash_attn"])
@pytest.mark.parametrize("guard", ["if not torch.cuda.is_available():\n    raise ValueError('no GPU')\nelse:\n    ", "if torch.cuda.is_available():\n    "])  # fmt: skip
def test_a_check_before_kernels_of_a_package_stays(package: str, guard: str) -> None:
    text = f"import torch\nimport {package}\n\n{guard}y = {package}.attention(torch.ones(2, device='cuda'))\n"
    assert "torch.cuda.is_available()" in written(text).text


#: Where a default is declared and where its value is used: ``{0}`` is CUDA's name.
ATTENTION = "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
#: A way to compute attention behind a check: in its branch, or in a function that the branch calls.
COMPUTED = {
    "in the branch": "def f(q, many):\n    if {0}:\n        with sdpa_kernel({1}):\n            return nn.functional.scaled_dot_product_attention(q, q, q)\n    return q\n",
    "in a function": "def g(q):\n    with sdpa_kernel([{1}]):\n        return nn.functional.scaled_dot_product_attention(q, q, q)\n\n\ndef f(q, many):\n    if {0}:\n        return g(q)\n    return q\n",
    "in a method": "class A:\n    def g(self, q):\n        with sdpa_kernel({1}):\n            return nn.functional.scaled_dot_product_attention(q, q, q)\n\n    def f(self, q, many):\n        return self.g(q) if {0} else q\n",
}


@pytest.mark.parametrize("asked", ["q.is_cuda", "many and q.is_cuda", 'q.device.type == "cuda"'])
@pytest.mark.parametrize(("kernel", "own"), [("SDPBackend.FLASH_ATTENTION", True), ("SDPBackend.EFFICIENT_ATTENTION", True), ("SDPBackend.MATH", False)])  # fmt: skip
@pytest.mark.parametrize("form", COMPUTED)
def test_a_check_before_a_kernel_for_attention_stays(form: str, kernel: str, own: bool, asked: str) -> None:  # fmt: skip
    text = HEAD + ATTENTION + COMPUTED[form].format(asked, kernel)
    assert (written(text).text == text) is own


DEFAULTS = {
    "an option": 'def main():\n    p = argparse.ArgumentParser()\n    p.add_argument("--device", default={0})\n    args = p.parse_args([])\n    return torch.zeros(1, device=args.device)',
    "an option beside unknown ones": 'def main():\n    p = argparse.ArgumentParser()\n    p.add_argument("--place", dest="device", default={0})\n    args, rest = p.parse_known_args([])\n    return torch.zeros(1, device=args.device)',
    "options that are returned": 'def read():\n    p = argparse.ArgumentParser()\n    p.add_argument("--device", default={0})\n    return p.parse_args([])\ndef main():\n    return torch.zeros(1, device=read().device)',
    "a field": "@dataclass\nclass Config:\n    device: str = {0}\ndef main():\n    return torch.zeros(1, device=Config().device)",
    "a field with more": '@dataclass\nclass Config:\n    device: str = field(default={0}, metadata={{"help": "where"}})\ndef main():\n    return torch.zeros(1, device=Config().device)',
    "a field of devices": "@dataclass\nclass Config:\n    device: torch.device = torch.device({0})\ndef main():\n    return torch.zeros(1, device=Config().device)",
    "a parameter": "def make(device={0}):\n    return torch.zeros(1, device=device)\ndef main():\n    return make()",
}  # fmt: skip


@pytest.mark.parametrize("text", ['"cuda"', '"cuda:0"'])
@pytest.mark.parametrize("declared", DEFAULTS)
def test_a_default_is_looked_up_when_it_is_used(declared: str, text: str) -> None:
    head = "import argparse\nfrom dataclasses import dataclass, field\nimport torch\n"
    after = written(f"{head}{DEFAULTS[declared].format(text)}\n").text
    assert "cuda" not in after and "hpu" not in after
    names: dict[str, Any] = {}
    asked = mock.Mock(side_effect=RuntimeError)
    with mock.patch.object(torch.accelerator, "is_available", asked):
        exec(compile(after, "train.py", "exec", dont_inherit=True), names)
    there = mock.patch.object(torch.accelerator, "is_available", return_value=True)
    with there, mock.patch.object(torch.accelerator, "current_accelerator", lambda: torch.device("meta")):  # fmt: skip
        assert names["main"]().device.type == "meta"


def test_a_field_that_is_read_from_its_class_stays() -> None:
    code = 'from dataclasses import dataclass\nimport torch\n@dataclass\nclass Config:\n    device: str = "cuda"\nx = torch.zeros(1, device=Config.device)\n'
    assert written(code).text == code


def test_a_member_that_is_picked_by_its_value_stays() -> None:
    code = 'import enum\nimport torch\nclass Kind(str, enum.Enum):\n    CPU = "cpu"\n    GPU = "cuda"\nkind = Kind("cuda") if torch.cuda.is_available() else Kind.CPU\nx = torch.ones(2, device=kind.value)\n'
    assert written(code).text == code


@pytest.mark.parametrize(
    "declared",
    [
        'p = argparse.ArgumentParser()\nsub = p.add_subparsers()\none = sub.add_parser("one")\none.add_argument("--device", default="cuda")\nargs = p.parse_args([])\n',
        'p = argparse.ArgumentParser()\np.add_argument("--device", type=torch.device, default="cuda")\nargs = p.parse_args([])\n',
        '@dataclass\nclass Config:\n    device: str = chosen(default="cuda")\n',
    ],
)
def test_a_default_that_other_code_turns_into_something_stays(declared: str) -> None:
    code = f"import argparse\nfrom dataclasses import dataclass\nimport torch\n{declared}"
    assert written(code).text == code


@pytest.mark.parametrize("asked", ["x.is_cuda", 'x.device.type == "cuda"', "x.is_cuda and many", 'x.device.type == "cuda" and many'])  # fmt: skip
@pytest.mark.parametrize(("move", "there"), [("return y.cuda()", "return y.to(x.device)"), ("y = y.cuda(non_blocking=True)", "y = y.to(x.device, non_blocking=True)"), ('y = torch.ones(2, device="cuda")', "y = torch.ones(2, device=x.device)")])  # fmt: skip
@pytest.mark.parametrize("between", ["", "x = x.cpu()"])
def test_what_is_moved_where_a_tensor_is_goes_to_its_device(asked: str, move: str, there: str, between: str) -> None:  # fmt: skip
    after = body(f"def f(x, y):\n    if {asked}:\n        {between or 'pass'}\n        {move}\n    return y")  # fmt: skip
    assert (there in after) is not bool(between)
    assert 'x.device.type != "cpu"' in after


DEMANDS = {
    'assert torch.cuda.is_available(), "no CUDA"': True,
    "assert many and torch.cuda.is_available()": True,
    "if not torch.cuda.is_available():\n    raise SystemExit": True,
    "if not torch.cuda.is_available():\n    sys.exit(1)": True,
    "if not torch.cuda.is_available():\n    print(1)": False,
    "assert many or torch.cuda.is_available()": False,
    "print(torch.cuda.is_available())": False,
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("demand", DEMANDS)
@pytest.mark.parametrize(("device", "kind"), [('"cuda"', ".type"), ('torch.device("cuda")', "")])
def test_no_second_choice_where_the_program_has_ended(demand: str, device: str, kind: str, inside: bool) -> None:  # fmt: skip
    text = f"{demand}\ndevice = {device}"
    if inside:
        text = "def main():\n    " + text.replace("\n", "\n    ")
    assert body(text).endswith(f"device = {CURRENT}{kind}") is DEMANDS[demand]


SAVED = ["torch.save(m.state_dict(), p)", 'torch.save(m.state_dict(), "p.pt")', 'torch.save({"a": m.state_dict()}, name + ".h5")']  # fmt: skip


@pytest.mark.parametrize("load", ["m.load_state_dict(torch.load({0}))", "m.load_state_dict(torch.load({0})['a'])"])  # fmt: skip
@pytest.mark.parametrize("save", SAVED)
@pytest.mark.parametrize("above", ["", "def g(m):\n    "])
def test_what_the_function_has_saved_itself_is_loaded_as_it_was(save: str, load: str, above: str) -> None:  # fmt: skip
    path = save.rpartition(", ")[2].removesuffix(")")
    text = f"{above}{save}\ndef f(m):\n    m.cuda()\n    {save}\n    {load.format(path)}"
    assert "map_location" not in body(text)
    assert "map_location" in body(text.replace(f"    {save}\n    m.load", "    m.load"))


PRECISE = [
    "half = half and {}",
    "half &= {}",
    "dtype = torch.float16 if {} else torch.float32",
    "dtype = torch.float16 if use_fp16 and {} else torch.float32",
    "if {}:\n    use_fp16 = True",
    "if {}:\n    m.half()",
    "if not ({}):\n    force_fp32 = True",
    "if {}:\n    m = m.half()",
]


@pytest.mark.parametrize("asked", ['x.device.type == "cuda"', 'x.device.type != "cuda"'])
@pytest.mark.parametrize("form", PRECISE)
def test_a_question_that_decides_a_precision_alone_stays(form: str, asked: str) -> None:
    """float16 is known to be right on CUDA; other devices go on with float32."""
    assert body(form.format(asked)) == form.format(asked)


@pytest.mark.parametrize("form", ["kind = 1 if {} else 2", "if {}:\n    m.half().cuda()", "if {}:\n    half = True\n    m.cuda()", "if {}:\n    use_fp16 = True\nelse:\n    m.cpu()"])  # fmt: skip
def test_a_question_that_decides_more_than_a_precision_turns(form: str) -> None:
    asked = 'x.device.type == "cuda"'
    assert asked not in body(form.format(asked))


@pytest.mark.parametrize("option", ["--cuda", "--use_cuda", "--use-cuda"])
@pytest.mark.parametrize("text", ["you should run with {0}", "You have a CUDA device: run with {0}", "see {0}."])  # fmt: skip
def test_a_message_names_the_option_by_its_new_name(option: str, text: str) -> None:
    dest = option.lstrip("-").replace("-", "_")
    code = f'import argparse\np = argparse.ArgumentParser()\np.add_argument("{option}", action="store_true")\nargs = p.parse_args()\nif torch.cuda.is_available() and not args.{dest}:\n    print("{text.format(option)}")'
    after = body(code)
    assert text.format(option.replace("cuda", "accel")).replace("a CUDA", "an accelerator") in after
    assert f'"{option}"' in after


@pytest.mark.parametrize(("said", "after"), [("run it in cuda.", "run it on an accelerator."), ("run it on CUDA", "run it on an accelerator"), ("in CUDA devices", "in accelerator devices")])  # fmt: skip
def test_a_message_is_english(said: str, after: str) -> None:
    assert f'"{after}"' in body(f'assert torch.cuda.is_available(), "{said}"')


#: What keeps a project's torch old, and what does not: files beside ``train.py``, and the words of the reason.
OLD_TORCH: dict[str, dict[str, str]] = {
    "torch==1.13.1": {"requirements.txt": "numpy\ntorch==1.13.1\n"},
    "torch<2.0": {"requirements.txt": "torch<2.0\n"},
    "torchvision==0.14": {"requirements.txt": "torch>=1.9\ntorchvision==0.14\n"},
    "xformers==0.0.19": {"requirements.txt": "torch>=1.9\n", "requirements-extra.txt": "xformers==0.0.19\n"},
    "python==3.8.*": {"environment.yml": "dependencies:\n  - python=3.8\n  - pytorch>=1.9\n"},
    "pytorch-cuda==11.7.*": {"environment.yml": "dependencies:\n  - pytorch-cuda=11.7\n", "requirements.txt": "torch>=1.9\n"},
    "the package itself": {"setup.py": "from setuptools import setup\n\nsetup(name='own', install_requires=['torch>=1.9'])\n", "own/net.py": "import torch\n# .to('cuda')\n", "examples/a.py": "import torch\n\ntorch.ones(2).cuda()\n"},
}  # fmt: skip
NEW_TORCH: list[dict[str, str]] = [
    {},
    {"requirements.txt": "torch\n"},
    {"requirements.txt": "torch>=1.9\ntorchvision>=0.10\n"},
    {"requirements.txt": "torch==2.7.1\ntorchvision==0.22\n"},
    {"setup.py": "from setuptools import setup\n\nsetup(name='own', install_requires=['torch>=1.9'])\n", "own/net.py": "import torch\n\n\ndef f(x):\n    return x.to('cuda')\n"},
]  # fmt: skip
#: What is rewritten, and the value of ``d`` afterwards: the accelerator, also where torch cannot say so.
FORMS = {
    "a choice": 'device = "cuda" if torch.cuda.is_available() else "cpu"',
    "a choice of devices": 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "a choice with more": 'device = torch.device("cuda" if torch.cuda.is_available() and not False else "cpu")',
    "a flag": 'use_cuda = torch.cuda.is_available()\ndevice = torch.device("cuda" if use_cuda else "cpu")',
    "a check": 'device = "cpu"\nif torch.cuda.is_available():\n    device = "cuda"',
    "a check that refuses": 'device = "cpu"\nif not torch.cuda.is_available():\n    print("no CUDA")\nelse:\n    device = torch.device("cuda")',
    "a demand": 'assert torch.cuda.is_available()\ndevice = "cuda"',
    "a default": 'def f(device="cuda"):\n    return device\ndevice = f() if torch.cuda.is_available() else "cpu"',
}  # fmt: skip


def written_for(folder: Path, files: dict[str, str], train: str) -> str:
    """What becomes of ``train.py`` in a project; a second run does nothing, and the way back is exact."""
    before = {**files, "train.py": train}
    for path, text in before.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    migrate([folder], Target(style="agnostic"), allow_dirty=True)
    after = (folder / "train.py").read_text()
    again = migrate([folder], Target(style="agnostic"), allow_dirty=True)
    assert not [file.path for file in again.files if file.status == "changed"]
    for path in files if files in OLD_TORCH.values() else ():
        assert path.endswith(".py") or (folder / path).read_text() == files[path]
    while undo(folder).run:
        pass
    assert {path: (folder / path).read_text() for path in before} == before
    return after


@pytest.mark.parametrize("held", OLD_TORCH)
@pytest.mark.parametrize("form", FORMS)
def test_where_torch_cannot_be_later_the_code_asks_it(tmp_path: Path, form: str, held: str) -> None:
    after = written_for(tmp_path, OLD_TORCH[held], f"import torch\n\n{FORMS[form]}\n")
    assert 'hasattr(torch, "accelerator")' in after
    for has in (True, False):
        there = mock.patch.object(torch.cuda, "is_available", return_value=True)
        new = mock.Mock(is_available=lambda: True, current_accelerator=lambda: torch.device("xpu"))
        with there, mock.patch.object(torch, "accelerator", new) if has else without_accelerator():
            names: dict[str, Any] = {}
            exec(compile(after, "train.py", "exec", dont_inherit=True), names)
        assert torch.device(names["device"]).type == ("xpu" if has else "cuda")
    if form != "a demand":
        names = {}
        with without_accelerator():
            exec(compile(after, "train.py", "exec", dont_inherit=True), names)
        assert torch.device(names["device"]).type == "cpu"


@contextlib.contextmanager
def without_accelerator() -> Iterator[None]:
    """torch as it was before 2.6."""
    kept = torch.accelerator
    del torch.accelerator
    try:
        yield
    finally:
        torch.accelerator = kept


@pytest.mark.parametrize("files", NEW_TORCH)
@pytest.mark.parametrize("form", FORMS)
def test_where_torch_can_be_later_the_code_does_not_ask(tmp_path: Path, form: str, files: dict[str, str]) -> None:  # fmt: skip
    after = written_for(tmp_path, files, f"import torch\n\n{FORMS[form]}\n")
    assert "hasattr" not in after and "torch.accelerator" in after


@pytest.mark.parametrize("new", ["torch.cuda.synchronize()", "torch.cuda.set_device(0)", "e = torch.cuda.Event()", "s = torch.cuda.amp.GradScaler()", "print(torch.cuda.device_count())", 'torch.distributed.init_process_group("nccl")', "with torch.cuda.amp.autocast():\n    pass"])  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("torch_", "oldest"), [("torch==1.9.1", "1.9.1"), ("torch>=1.9,<2.1", "1.13.1"), ("torch==2.4.1", "2.4.1")])  # fmt: skip
def test_a_file_with_what_an_old_torch_lacks_stays_whole(tmp_path: Path, form: str, new: str, torch_: str, oldest: str) -> None:  # fmt: skip
    text = f"import torch\n\n{FORMS[form]}\n{new}\nif __name__ == '__main__':\n    pass\n"
    known = ("autocast" in new and oldest != "1.9.1") or ("GradScaler" in new and oldest == "2.4.1")
    after = written_for(tmp_path, {"requirements.txt": f"{torch_}\n"}, text)
    assert (after == text) is not known
    report = analyse([tmp_path], Target(style="agnostic"))
    said = [f.message for file in report.files for f in file.findings if file.path == "train.py"]
    assert any("leaves the file" in each and oldest in each for each in said) is not known


@pytest.mark.parametrize("torch_", ["torch==1.9.1", "torch==2.4.1"])
@pytest.mark.parametrize("ids", ["device_ids=[rank]", "device_ids=[args.rank], output_device=args.rank"])  # fmt: skip
def test_what_is_not_written_holds_no_file(tmp_path: Path, ids: str, torch_: str) -> None:
    """A fix for ``--unsafe`` that needs a later torch."""
    text = f"import torch\n\n\ndef f(m, rank, args):\n    m = m.cuda()\n    return torch.nn.parallel.DistributedDataParallel(m, {ids})\n"
    after = written_for(tmp_path, {"requirements.txt": f"{torch_}\n"}, text)
    assert "hasattr" in after and ids in after
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True, unsafe=True)
    assert "current_device_index" not in (tmp_path / "train.py").read_text()


def test_the_functions_of_two_kinds_are_each_where_they_are_defined(tmp_path: Path) -> None:
    files = {"requirements.txt": "torch==1.9.1\n", "utils.py": "import torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n", "other.py": 'import torch\nimport utils\n\nd = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'}  # fmt: skip
    text = 'import torch\nimport utils\n\n\ndef f(x, n):\n    y = torch.ones(2).to("cuda" if torch.cuda.is_available() else "cpu")\n    return x.to(f"cuda:{n}"), y\n'
    after = written_for(tmp_path, files, text)
    assert "from utils import default_device\n" in after
    assert "def accelerator_device" in after and "def default_device" not in after


@pytest.mark.parametrize("beside", ["n = torch.cuda.device_count()", "torch.cuda.synchronize()", "y = y.to(device)", 'p.add_argument("--cuda", action="store_true")'])  # fmt: skip
def test_where_the_choice_stays_all_of_the_file_stays(beside: str) -> None:
    """MPS has no float64: what turned would be beside a device that is CUDA or the CPU."""
    text = f'import torch\n\n\ndef f(p, y, device):\n    z = y.double()\n    {beside}\n    return y.cuda(), z, torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    assert written(text).text == text


#: What names CUDA's device without a choice, by whether something shows that there is an accelerator.
SHOWN = {
    "{0}": False,
    "if args.cuda:\n    {0}": False,
    "if args.gpu is not None:\n    {0}": False,
    "if host:\n    pass\nelse:\n    {0}": False,
    "if torch.cuda.is_available() or many:\n    {0}": False,
    "torch.cuda.set_device(rank)\n{0}": True,
    "assert torch.cuda.is_available()\n{0}": True,
    "if torch.cuda.is_available():\n    {0}": True,
    "if torch.cuda.is_available() and many:\n    {0}": True,
    "if not torch.cuda.is_available():\n    pass\nelse:\n    {0}": True,
    "use_cuda = torch.cuda.is_available() and many\nif use_cuda:\n    {0}": True,
    "args.cuda = torch.cuda.is_available()\nif args.cuda:\n    {0}": True,
    "if x.is_cuda:\n    {0}": True,
}


@pytest.mark.parametrize("use", ['place = f"cuda:{rank}"', 'm = torch.load(p, map_location=f"cuda:{rank}")', 'device = torch.device(f"cuda:{rank}")'])  # fmt: skip
@pytest.mark.parametrize("around", SHOWN)
def test_without_an_accelerator_the_error_is_clear(around: str, use: str) -> None:
    """``None`` has no type: where nothing shows that there is an accelerator, the function says that there is none."""
    text = HEAD + around.format(use) + "\n"
    after = written(text).text
    assert ("no accelerator is available" in after) is not SHOWN[around]
    there = mock.patch.object(torch.accelerator, "is_available", return_value=False)
    none = mock.patch.object(torch.accelerator, "current_accelerator", return_value=None)
    fails = mock.patch.object(torch.accelerator, "set_device_index", side_effect=RuntimeError)
    names = {"rank": 1, "p": "p", "many": True, "host": False, "x": torch.ones(1), "args": mock.Mock(cuda=True, gpu=1)}  # fmt: skip
    said = contextlib.suppress(AssertionError, RuntimeError) if SHOWN[around] else pytest.raises(RuntimeError, match="accelerator")  # fmt: skip
    with there, none, fails, said:
        exec(compile(after, "train.py", "exec", dont_inherit=True), names)


@pytest.mark.parametrize("use", ["x = x.cuda()", 'x = x.to("cuda")', 'x = torch.ones(2, device="cuda")'])  # fmt: skip
@pytest.mark.parametrize("around", ["for x in xs:\n        if many:\n            {0}\n", "y = x if many else z\n    if many:\n        {0}", "with a:\n        if many:\n            {0}"])  # fmt: skip
def test_what_may_not_run_ends_no_program(around: str, use: str) -> None:
    """The program stops where the device is needed, not in front of the condition."""
    text = f"def f(xs, x, z, many, a):\n    {around.format(use)}\n"
    after = written(HEAD + text).text
    inside = after[after.index("def f(") :]
    assert "raise" not in inside.partition("if many")[0]


#: Files that need a device, by whether the function of a helper module can give it: ``utils.py`` has it for those that need a function.
SHARING = {
    "def f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda()\n": "needs",
    'device = "cuda" if torch.cuda.is_available() else "cpu"\n': "chooses",
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n': "chooses",
    'def main():\n    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n    return device\n': "chooses",
    'device = torch.device("cuda" if torch.cuda.is_available() and many else "cpu")\n': "more",
}


@pytest.mark.parametrize("imports", ["import utils\n", "from utils import seed\n", ""])
@pytest.mark.parametrize("needs", [0, 1, 2])
@pytest.mark.parametrize("form", [form for form, kind in SHARING.items() if kind != "needs"])
def test_one_idiom_in_one_project(tmp_path: Path, form: str, needs: int, imports: str) -> None:
    """A file that only chooses takes the function which others share, and gets none for itself alone."""
    need = next(form for form, kind in SHARING.items() if kind == "needs")
    files = {"utils.py": "import torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n"}
    files |= {f"need{n}.py": f"import torch\nimport utils\n\n\n{need}" for n in range(needs)}
    after = written_for(tmp_path, files, f"import torch\n{imports}\nmany = True\n{form}")
    taken = needs == 2 and SHARING[form] == "chooses"
    assert ("default_device()" in after) is taken
    assert ("if torch.accelerator.is_available()" in after) is not taken
    assert "def default_device" not in after


#: What needs the device when the file is loaded that gives it to others; and what comes first there.
LOADED = ('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")', 'device = "cuda" if torch.cuda.is_available() else "cpu"', "ones = torch.ones(2).cuda()", 'if torch.cuda.is_available():\n    ones = torch.ones(2, device="cuda")', 'mean = (torch.ones(2, device="cuda"), 1)', 'class Places:\n    first = torch.ones(1, device="cuda")', 'def at(x, place=torch.device("cuda" if torch.cuda.is_available() else "cpu")):\n    return x.to(place)')  # fmt: skip


@pytest.mark.parametrize(
    "above", ["", "many = 3\n\n\ndef once(x):\n    return x\n\n\n", '"""A text."""\n']
)
@pytest.mark.parametrize("loaded", LOADED)
def test_a_function_for_others_is_there_before_its_own_file_calls_it(tmp_path: Path, loaded: str, above: str) -> None:  # fmt: skip
    need = "def f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda()\n"
    helper = f"{above}import torch\n\n{loaded}\n\n\ndef seed(n):\n    torch.manual_seed(n)\n"
    files = {f"need{n}.py": f"import torch\nimport utils\n\n\n{need}" for n in range(2)}
    for path, text in {**files, "utils.py": helper}.items():
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = (tmp_path / "utils.py").read_text()
    with contextlib.suppress(RuntimeError, AssertionError):  # there is no accelerator here
        exec(after, {"__name__": "utils"})
    assert "_device()" in after


#: What reads the number in the text of a device, and what does not.
READS = {
    "if str(gpu) not in device:\n    raise ValueError": True,
    'if ":" in device:\n    pass': True,
    'kind, number = device.split(":")': True,
    "number = int(device[-1])": True,
    'if device == "cuda:0":\n    pass': True,
    "x = x.to(device)": False,
    "for each in device:\n    pass": False,
    'if "cuda" in device:\n    pass': False,
    "": False,
}


@pytest.mark.parametrize("use", ['device = "cuda:0" if torch.cuda.is_available() else "cpu"', 'device = "cpu"\nif torch.cuda.is_available():\n    device = "cuda:0"'])  # fmt: skip
@pytest.mark.parametrize("files", [{}, {"requirements.txt": "torch==1.9.1\n"}])
@pytest.mark.parametrize("reads", READS)
def test_a_number_stays_where_the_project_reads_it(tmp_path: Path, reads: str, files: dict[str, str], use: str) -> None:  # fmt: skip
    body = reads.replace("\n", "\n    ") or "pass"
    net = {"net.py": f"import torch\n\n\ndef f(x, device, gpu):\n    {body}\n"}
    after = written_for(tmp_path, {**files, **net}, f"import torch\n\n{use}\n")
    assert ('.type}:0"' in after) is READS[reads]
    assert "cuda:0" not in after


@pytest.mark.parametrize("asked", ['x.is_cuda or "cpu" in str(x.device)', 'x.is_cuda or x.device.type == "cpu"', "x.is_cpu or x.is_cuda", 'x is None or x.is_cuda or x.device == torch.device("cpu")'])  # fmt: skip
@pytest.mark.parametrize("form", ["if {}:\n    fast(x)", "known = {}", "all({} for x in xs)"])
def test_a_condition_that_lists_the_devices_stays(form: str, asked: str) -> None:
    """What runs on CUDA and on the CPU is said to run there, and not on every device."""
    assert body(form.format(asked)) == form.format(asked)


@pytest.mark.parametrize("use", ["ctx.dim = 1", "ctx.size = x.size()", "ctx.detach = None"])
def test_the_context_of_a_function_is_no_tensor(use: str) -> None:
    text = f"class F(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, x):\n        {use}\n        with torch.cuda.amp.autocast(enabled=False):\n            return x.detach() * ctx.dim, ctx.size, ctx.detach"
    assert "autocast(device_type=x.device.type, enabled=False)" in body(text)


@pytest.mark.parametrize("ask", ["torch.is_autocast_enabled()", "torch.get_autocast_gpu_dtype()"])
@pytest.mark.parametrize(("before", "known"), [("y = x.softmax(dim=1)", True), ("x = x.cpu().detach()", False), ("y = x", False)])  # fmt: skip
def test_autocast_is_asked_about_for_the_device_of_a_tensor(ask: str, before: str, known: bool) -> None:  # fmt: skip
    text = (
        f"class A(nn.Module):\n    def forward(self, x):\n        {before}\n        return x, {ask}"
    )
    name = ask.removesuffix("()").replace("_gpu", "")
    assert (f"{name}(x.device.type)" in body(text)) is known


@pytest.mark.parametrize("imports", ["from .part import f\n", "from pkg.part import f\n", "from pkg import part\n"])  # fmt: skip
def test_what_imports_nothing_of_its_own_finds_the_home_by_its_importers(tmp_path: Path, imports: str) -> None:  # fmt: skip
    need = "\n\ndef f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda()\n"
    files = {
        "pkg/__init__.py": "",
        "pkg/utils.py": "import torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n",
        "pkg/part.py": f"import torch\n{need}",
        "pkg/main.py": f"import torch\n{imports}from .utils import seed\n{need}",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = (tmp_path / "pkg/part.py").read_text()
    where = ".utils" if "from ." in imports else "pkg.utils"
    assert f"from {where} import accelerator_device\n" in after and "def accelerator" not in after


@pytest.mark.parametrize("torch_", ["torch==1.9.1", "torch>=1.9"])
def test_a_notebook_gets_no_function_for_an_old_torch(tmp_path: Path, torch_: str) -> None:
    cells = ["import torch\n", 'device = "cuda" if torch.cuda.is_available() else "cpu"\n']
    book = {"cells": [{"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [cell]} for cell in cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}  # fmt: skip
    (tmp_path / "a.ipynb").write_text(json.dumps(book))
    (tmp_path / "requirements.txt").write_text(f"{torch_}\n")
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert ("accelerator" in (tmp_path / "a.ipynb").read_text()) is (">=" in torch_)


@pytest.mark.parametrize(("other", "kept"), [("y = x.cuda()", True), ("y = x", False)])
def test_the_device_is_kept_where_each_branch_needs_it(other: str, kept: bool) -> None:
    text = f"def f(x, xs, many):\n    if many:\n        for x in xs:\n            y = x.cuda()\n    else:\n        {other}\n    return y"
    assert (
        f"many):\n    {NEEDED}" in body(text)
        if kept
        else f"if many:\n        {NEEDED}" in body(text)
    )


#: A choice that is made by statements, and what it becomes where a function of the project chooses; ``{0}`` is CUDA's device, ``{1}`` the CPU's.
BY_STATEMENTS = {
    "device = {1}\nif torch.cuda.is_available():\n    device = {0}": "device = {2}",
    "if torch.cuda.is_available():\n    device = {0}\nelse:\n    device = {1}\nx = 3": "device = {2}\nx = 3",
    "if x is None:\n    device = {1}\n    if torch.cuda.is_available():\n        device = {0}": "if x is None:\n    device = {2}",
    "self.device = {1}\nif torch.cuda.is_available():\n    self.device = {0}\nx = 3": "self.device = {2}\nx = 3",
    # more than a choice
    "device = {1}\nif torch.cuda.is_available():\n    device = {0}\n    print(1)": None,
    "other = {1}\nif torch.cuda.is_available():\n    device = {0}": None,
    "device = {1}\nprint(device)\nif torch.cuda.is_available():\n    device = {0}": None,
    "device = {1}\nif torch.cuda.is_available():\n    # why\n    device = {0}": None,
    "device = {1}\nif torch.cuda.is_available() and many:\n    device = {0}": None,
}


@pytest.mark.parametrize(("cuda", "cpu", "made"), [('"cuda"', '"cpu"', "default_device().type"), ('torch.device("cuda:0")', 'torch.device("cpu")', "default_device()")])  # fmt: skip
@pytest.mark.parametrize("form", BY_STATEMENTS)
def test_a_choice_by_statements_is_one_assignment(tmp_path: Path, form: str, cuda: str, cpu: str, made: str) -> None:  # fmt: skip
    text = "def f(self, x, many):\n    " + form.format(cuda, cpu).replace("\n", "\n    ")
    after = written_for(tmp_path, {"requirements.txt": "torch==1.9.1\n"}, f"import torch\n\n\n{text}\n")  # fmt: skip
    wanted = BY_STATEMENTS[form]
    whole = "    " + (wanted or "").format(cuda, cpu, made).replace("\n", "\n    ")
    assert after.endswith(f"many):\n{whole}\n") if wanted else "if default_device().type" in after
    assert ("# why" in after) is ("# why" in form)


CHOOSES = 'import torch\n\ndevice = "cuda" if torch.cuda.is_available() else "cpu"\n'
#: Files with a pin of an old torch, and which files of the project run in that install: those ask torch, and bounds beside them stay.
INSTALLS: dict[str, tuple[dict[str, str], dict[str, bool]]] = {
    "a folder beside": ({"a/requirements.txt": "torch==1.9.1\n", "a/train.py": CHOOSES, "b/requirements.txt": "torch>=1.9\n", "b/train.py": CHOOSES}, {"a/train.py": True, "b/train.py": False, "b/requirements.txt": False}),
    "a folder below": ({"docs/requirements.txt": "torch==1.9.1\n", "docs/conf.py": "import torch\n", "requirements.txt": "torch>=1.9\n", "train.py": CHOOSES}, {"train.py": False}),
    "the folder around": ({"requirements.txt": "torch==1.9.1\n", "a/train.py": CHOOSES, "a/requirements.txt": "torch>=1.9\n"}, {"a/train.py": True, "a/requirements.txt": True}),
    "a folder without code": ({"env/requirements.txt": "torch==1.9.1\n", "requirements.txt": "torch>=1.9\n", "train.py": CHOOSES}, {"train.py": True, "requirements.txt": True}),
    "code that imports": ({"scripts/environment.yml": "dependencies:\n  - pytorch=1.9\n", "scripts/run.py": f"import own.net\n{CHOOSES}", "own/__init__.py": "", "own/net.py": CHOOSES, "pyproject.toml": '[project]\ndependencies = ["torch>=1.9"]\n'}, {"own/net.py": True, "scripts/run.py": True, "pyproject.toml": True}),
    "code that imports a part": ({"scripts/environment.yml": "dependencies:\n  - pytorch=1.9\n", "scripts/run.py": f"import own.net\n{CHOOSES}", "own/__init__.py": "", "own/net.py": CHOOSES, "own/cli.py": CHOOSES, "pyproject.toml": '[project]\ndependencies = ["torch>=1.9"]\n'}, {"own/net.py": True, "own/cli.py": False, "pyproject.toml": False}),
    "code that does not": ({"scripts/environment.yml": "dependencies:\n  - pytorch=1.9\n", "scripts/run.py": CHOOSES, "own/__init__.py": "", "own/net.py": CHOOSES, "pyproject.toml": '[project]\ndependencies = ["torch>=1.9"]\n'}, {"own/net.py": False, "scripts/run.py": True}),
}  # fmt: skip


@pytest.mark.parametrize("install", INSTALLS)
def test_a_pin_holds_what_its_install_runs(tmp_path: Path, install: str) -> None:
    files, held = INSTALLS[install]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {path: (tmp_path / path).read_text() for path in files}
    for path, old in held.items():
        asks = "hasattr(torch" in after[path] if path.endswith(".py") else "2.6" not in after[path]
        assert asks is old or "import default_device" in after[path], path
    again = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert not [file.path for file in again.files if file.status == "changed"]


#: What texts say of the torch that is installed, and whether it is one that may be a later one as well; None where they ask for nothing.
TEXTS: dict[str, bool | None] = {
    "```\nconda install pytorch=1.8 torchvision cudatoolkit=10.2 -c pytorch\n```": False,
    "    pip3 install --user torch==1.7.1+cu110 -f https://example.org": False,
    "This repository is built in PyTorch 1.8.1 and tested on Ubuntu 16.04 (Python3.7, CUDA10.2).": False,
    "* python3, pytorch 1.0, torchvision 0.2.1": False,
    "- [PyTorch](https://pytorch.org/) 0.4.1": False,
    "PyTorch version 1.1": False,
    "- PyTorch >= v0.4.0": True,
    "Requires PyTorch 1.7+ and Python 3.6": True,
    "- torch (1.2 or later)": True,
    "pip install 'torch>=1.6'": True,
    "pip install torch torchvision": None,
    "- PyTorch 2.7": None,
    "The code uses [PyTorch 2.0](https://example.org/2.0), whose compiler makes it fast.": None,
    "See issue pytorch-1.4 for that bug.": None,
}


@pytest.mark.parametrize(("path", "code"), [("README.md", "train.py"), ("docs/INSTALL.md", "train.py"), ("a/README.md", "a/train.py")])  # fmt: skip
@pytest.mark.parametrize("text", TEXTS)
def test_the_torch_of_a_documented_install_is_a_bound(tmp_path: Path, text: str, path: str, code: str) -> None:  # fmt: skip
    files = {path: f"# Own\n\n{text}\n", code: CHOOSES, "docs/conf.py": "x = 3\n", "b/other.py": CHOOSES}  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {name: (tmp_path / name).read_text() for name in files}
    assert ("hasattr" in after[code]) is (TEXTS[text] is False)
    assert ("hasattr" in after["b/other.py"]) is (TEXTS[text] is False and not path.startswith("a"))
    assert (after[path] != files[path]) is (TEXTS[text] is True)
    assert ("2.6" in after[path]) is (TEXTS[text] is True)
    again = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert not [file.path for file in again.files if file.status == "changed"]
    while undo(tmp_path).run:
        pass
    assert {name: (tmp_path / name).read_text() for name in files} == files


@pytest.mark.parametrize(("name", "text"), [("Dockerfile", "FROM pytorch/pytorch:1.9.0-cuda11.1-cudnn8-runtime\n"), ("Dockerfile", "FROM python:3.8\nRUN pip install torch==1.9.0\n"), ("install.sh", "conda install -y pytorch==1.9 -c pytorch\n")])  # fmt: skip
@pytest.mark.parametrize(("beside", "asks"), [({}, True), ({"requirements.txt": "torch>=1.6\n"}, True), ({"README.md": "- PyTorch >= 1.6\n"}, True)])  # fmt: skip
def test_an_image_or_a_script_is_an_install(tmp_path: Path, name: str, text: str, beside: dict[str, str], asks: bool) -> None:  # fmt: skip
    after = written_for(tmp_path, {name: text, **beside}, CHOOSES)
    assert ("hasattr" in after) is asks


#: Ways to a batch that DataParallel scatters; ``{0}`` is how the batch is made a tensor's for sure, ``{1}`` the call.
SPREAD = {
    "the loop": "for x, y in loader:\n        {0}y = y.cuda()\n        loss = (model(x) - y).mean()\n        loss.backward()",
    "a function": "for x, y in loader:\n        {0}y = y.cuda()\n        loss = step(model, x, y)\n        loss.backward()",
    "a function by keyword": "for x, y in loader:\n        {0}y = y.cuda()\n        loss = step(model, target=y, data=x)\n        loss.backward()",
}
STEP = (
    "def step(net, data, target):\n    {0}out = net(data)\n    return (out - target).mean()\n\n\n"
)
#: How the model is wrapped, and whether that is DataParallel of torch.
WRAPPED = {"torch.nn.DataParallel(net).cuda()": True, "nn.DataParallel(net.cuda(), device_ids=[0, 1])": True, "net.cuda()": False}  # fmt: skip


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize(("sure", "moves"), [("", ""), ("n = x.size(0)\n        ", ""), ("", "data = data.cuda()\n    ")])  # fmt: skip
@pytest.mark.parametrize("way", SPREAD)
def test_what_data_parallel_moves_is_moved_or_the_file_stays(way: str, sure: str, moves: str, wrapped: str) -> None:  # fmt: skip
    """On CUDA alone the wrapper moves what the model is called with."""
    text = f"{HEAD}{STEP.format(moves)}def main(net, loader):\n    model = {wrapped}\n    {SPREAD[way].format(sure)}\n"
    after = written(text).text
    left = WRAPPED[wrapped] and not (moves and "function" in way)
    if left and not sure:
        assert after == text
        unsafe = Context(Target(style="agnostic", mode="eager"), load(), unsafe=True)
        after = settle(text, "python", "train.py", unsafe).text
    assert after != text and ".cuda(" not in after
    assert ("x.to(device)" in after) is left or wrapped == "net.cuda()"


#: Moves of a part beside a batch, and whether the batch is moved by a statement like it: nothing else is done with it.
BESIDE = {
    "y = y.cuda(non_blocking=True)\n        {0}": ("x = x.to(device, non_blocking=True)", True),
    "y = y.cuda()\n        n = x.size(0)\n        {0}": ("x = x.to(device)", True),
    "y = y.cuda()\n        if many:\n            {0}\n        else:\n            {0}": (
        "x = x.to(device)",
        True,
    ),
    "y = y.cuda()\n        {0}\n        {0}": ("x = x.to(device)", True),
    "y = y.cuda()\n        n = numpy.sum(x)\n        {0}": ("x = x.to(device)", False),
    "y = y.cuda()\n        n = x.mean()\n        {0}": ("x = x.to(device)", False),
}


@pytest.mark.parametrize("call", ["loss = model(x) - y", "loss = step(model, x, y)"])
@pytest.mark.parametrize("way", BESIDE)
def test_a_batch_is_moved_beside_its_other_part(way: str, call: str) -> None:
    moved, beside = BESIDE[way]
    text = f"{HEAD}{STEP.format('')}def main(net, loader, many, numpy):\n    model = nn.DataParallel(net).cuda()\n    for x, y in loader:\n        {way.format(call)}\n"
    unsafe = Context(Target(style="agnostic", mode="eager"), load(), unsafe=True)
    after = settle(text, "python", "train.py", unsafe).text
    assert after.count(f"        {moved}\n        y = y.to(device") == beside
    assert after.count("x.to(device") == (1 if beside else way.count("{0}"))


ALL = {
    "range(torch.cuda.device_count())": True,
    "list(range(torch.cuda.device_count()))": True,
    "[i for i in range(torch.cuda.device_count())]": True,
    "range(2)": False,
    "[0, 1]": False,
    "[i for i in range(torch.cuda.device_count()) if i]": False,
    "[i + 1 for i in range(torch.cuda.device_count())]": False,
}


@pytest.mark.parametrize("given", ["nn.DataParallel(m, device_ids={0})", "torch.nn.DataParallel(m, {0})", "nn.DataParallel(m, dim=0, device_ids={0})"])  # fmt: skip
@pytest.mark.parametrize("ids", ALL)
def test_all_devices_are_what_data_parallel_takes_by_itself(ids: str, given: str) -> None:
    after = body(f"m = {given.format(ids)}\nm.cuda()")
    bare = given.replace(", device_ids={0}", "").replace(", {0}", "")
    assert (f"m = {bare}" in after) is ALL[ids]


CHOSEN = {
    'opt["n"] != 0': True,
    "args.gpu >= 0 and not args.cpu": True,
    "wants(args)": True,
    "use_cuda": True,
    "not args.cpu": True,
    "args.gpu >= 0 and torch.cuda.is_available()": False,
}


@pytest.mark.parametrize("place", ["device = {0}", "self.device = {0}", "return {0}"])
@pytest.mark.parametrize("test", CHOSEN)
def test_no_device_is_taken_apart_to_be_built_again(test: str, place: str) -> None:
    made = place.format(f'torch.device("cuda" if {test} else "cpu")')
    after = body(f"def f(self, opt, args, use_cuda):\n    {made}")
    assert ("torch.device(accelerator_device().type" in after) is False
    assert (f'accelerator_device() if {test} else torch.device("cpu")' in after) is CHOSEN[test]


@pytest.mark.parametrize("made", ["nn.parallel.replicate(m, [0, 1])", "nn.parallel.scatter(x, [torch.cuda.current_device()])", "nn.parallel.scatter_gather.scatter_kwargs((x,), {}, [0])", "nn.parallel.gather([x], 0)", "nn.parallel.comm.broadcast(x, [0])"])  # fmt: skip
@pytest.mark.parametrize("beside", ["n = torch.cuda.device_count()", "x = x.cuda()", "use = torch.cuda.is_available()"])  # fmt: skip
def test_a_file_that_spreads_over_devices_itself_stays(made: str, beside: str) -> None:
    text = f"{HEAD}def f(m, x):\n    {beside}\n    y = {made}\n    return y\n"
    assert written(text).text == text


@pytest.mark.parametrize("made", ["nn.parallel.data_parallel(m, x, range(n))", "torch.nn.parallel.replicate(m, [0, 1])"])  # fmt: skip
@pytest.mark.parametrize("asked", ["x.is_cuda and n > 1", "x.is_cuda", "torch.cuda.is_available() and n > 1"])  # fmt: skip
def test_a_check_before_what_spreads_over_devices_stays(asked: str, made: str) -> None:
    text = f"{HEAD}def f(m, x, n):\n    if {asked}:\n        return {made}\n    return m(x)\n\n\ndef g(x):\n    return x.cuda()\n"
    after = written(text).text
    assert f"    if {asked}:\n" in after and ".cuda()" not in after


@pytest.mark.parametrize("name", ["ipc_collect", "reset_peak_memory_stats", "cudart"])
@pytest.mark.parametrize("around", ["{0}", "for x in xs:\n    {0}", "if many:\n    {0}", "try:\n    {0}\nfinally:\n    pass"])  # fmt: skip
def test_what_fails_without_cuda_is_called_where_cuda_is(around: str, name: str) -> None:
    call = f"torch.cuda.{name}()"
    after = written(f"{HEAD}x = x.cuda()\n{around.format(call)}\n").text
    assert re.search(rf"if torch\.cuda\.is_available\(\):\n +{re.escape(call)}", after)


@pytest.mark.parametrize("use", ['torch.distributed.init_process_group("nccl")', "with torch.autocast('cuda'):\n    pass"])  # fmt: skip
def test_a_file_that_does_not_name_cuda_stays_as_well(tmp_path: Path, use: str) -> None:
    text = f"import torch\n\n{use}\n"
    assert written_for(tmp_path, {"requirements.txt": "torch==1.9.1\n"}, text) == text


#: How a branch prepares what another one shows.
PREPARES = ["text = '{m}'", "text.append('{m}')", "text += ['{m}']", "text.extend(['{m}'])", "text['m'] = '{m}'"]  # fmt: skip


@pytest.mark.parametrize("shows", ["print(text, torch.cuda.max_memory_reserved(), torch.cuda.memory_summary())", "print(str(text).format(m=torch.cuda.max_memory_allocated() / 2, n=torch.cuda.memory_summary()))"])  # fmt: skip
@pytest.mark.parametrize("between", ["", "text = str(text)\n", "for x in xs:\n    pass\n"])
@pytest.mark.parametrize("prepares", PREPARES)
def test_what_one_branch_prepares_for_another_stays_with_it(prepares: str, between: str, shows: str) -> None:  # fmt: skip
    """A text with a place for CUDA's memory, and no memory to put there: the program would stop."""
    text = f"def f(xs, text):\n    if torch.cuda.is_available():\n        {prepares}\n    {between.replace(chr(10), chr(10) + '    ')}if torch.cuda.is_available():\n        {shows}\n    else:\n        print(text)"
    assert body(text).count("torch.cuda.is_available()") == 2


@pytest.mark.parametrize("needs", [1, 2])
def test_the_function_in_a_package_is_no_code_for_cuda(tmp_path: Path, needs: int) -> None:
    """A second run finds the bound as the first one did."""
    uses = "import torch\nfrom own.utils import seed\n\n\ndef f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda(), torch.cuda.is_available()\n"
    files = {
        "setup.py": "from setuptools import setup\n\nsetup(name='own', install_requires=['torch>=1.9'])\n",
        "own/__init__.py": "",
        "own/utils.py": "import torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n",
        **{f"examples/a{n}.py": uses for n in range(needs)},
    }
    after = written_for(tmp_path, files, uses)
    assert "from own.utils import seed, default_device" in after
