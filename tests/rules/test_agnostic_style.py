"""The agnostic style: the form that a maintainer writes, the same on the CPU as before, and what stays."""

from __future__ import annotations

import ast
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from agnostic import (
    AVAILABLE,
    CHOICE,
    CURRENT,
    DEFAULT,
    HEAD,
    KEPT,
    NEEDED,
    body,
    written,
    written_for,
)

from hpushim.engine.project import migrate
from hpushim.model import Style, Target


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


#: What asks whether a tensor is on CUDA, and its neutral form.
OF_TENSOR = {
    'd = "cuda" if {0}.is_cuda else "cpu"': "d = {0}.device.type",
    'd = torch.device("cuda") if {0}.is_cuda else torch.device("cpu")': "d = {0}.device",
    'd = torch.device("cuda" if {0}.is_cuda else "cpu")': "d = {0}.device",
    "d = {0}.is_cuda or {0}.is_xpu": 'd = {0}.device.type != "cpu"',
    "d = {0}.is_cuda": 'd = {0}.device.type != "cpu"',
    "d = not {0}.is_cuda": 'd = {0}.device.type == "cpu"',
    "d = [3, {0}.is_cuda and many]": 'd = [3, {0}.device.type != "cpu" and many]',
}
TENSORS = ["x", "a.b[0]", "f(x)", "(a + b)", "(a @\n     b)", "(a if c else b)", "(-a)", "(a or b)", "(y := f(x))", "(a\n .b)", "(lambda: a)()", "(a < b)"]  # fmt: skip


@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize("asks", OF_TENSOR)
def test_a_tensor_keeps_its_parentheses(asks: str, tensor: str) -> None:
    after = body(asks.format(tensor))
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(OF_TENSOR[asks].format(tensor)))


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


def test_a_file_without_torch_keeps_its_words() -> None:
    assert written('DEFAULTS = {"device": "cuda"}\nconfig = dict(device="cuda")\n').text.count("cuda") == 2  # fmt: skip


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


@pytest.mark.parametrize(("said", "after"), [("run it in cuda.", "run it on an accelerator."), ("run it on CUDA", "run it on an accelerator"), ("in CUDA devices", "in accelerator devices")])  # fmt: skip
def test_a_message_is_english(said: str, after: str) -> None:
    assert f'"{after}"' in body(f'assert torch.cuda.is_available(), "{said}"')


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


@pytest.mark.parametrize("asked", ['x.is_cuda or "cpu" in str(x.device)', 'x.is_cuda or x.device.type == "cpu"', "x.is_cpu or x.is_cuda", 'x is None or x.is_cuda or x.device == torch.device("cpu")'])  # fmt: skip
@pytest.mark.parametrize("form", ["if {}:\n    fast(x)", "known = {}", "all({} for x in xs)"])
def test_a_condition_that_lists_the_devices_stays(form: str, asked: str) -> None:
    """What runs on CUDA and on the CPU is said to run there, and not on every device."""
    assert body(form.format(asked)) == form.format(asked)


@pytest.mark.parametrize("ask", ["torch.is_autocast_enabled()", "torch.get_autocast_gpu_dtype()"])
@pytest.mark.parametrize(("before", "known"), [("y = x.softmax(dim=1)", True), ("x = x.cpu().detach()", False), ("y = x", False)])  # fmt: skip
def test_autocast_is_asked_about_for_the_device_of_a_tensor(ask: str, before: str, known: bool) -> None:  # fmt: skip
    text = (
        f"class A(nn.Module):\n    def forward(self, x):\n        {before}\n        return x, {ask}"
    )
    name = ask.removesuffix("()").replace("_gpu", "")
    assert (f"{name}(x.device.type)" in body(text)) is known


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


#: How a branch prepares what another one shows.
PREPARES = ["text = '{m}'", "text.append('{m}')", "text += ['{m}']", "text.extend(['{m}'])", "text['m'] = '{m}'"]  # fmt: skip


@pytest.mark.parametrize("shows", ["print(text, torch.cuda.max_memory_reserved(), torch.cuda.memory_summary())", "print(str(text).format(m=torch.cuda.max_memory_allocated() / 2, n=torch.cuda.memory_summary()))"])  # fmt: skip
@pytest.mark.parametrize("between", ["", "text = str(text)\n", "for x in xs:\n    pass\n"])
@pytest.mark.parametrize("prepares", PREPARES)
def test_what_one_branch_prepares_for_another_stays_with_it(prepares: str, between: str, shows: str) -> None:  # fmt: skip
    """A text with a place for CUDA's memory, and no memory to put there: the program would stop."""
    text = f"def f(xs, text):\n    if torch.cuda.is_available():\n        {prepares}\n    {between.replace(chr(10), chr(10) + '    ')}if torch.cuda.is_available():\n        {shows}\n    else:\n        print(text)"
    assert body(text).count("torch.cuda.is_available()") == 2
