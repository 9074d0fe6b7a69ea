"""All rules on generated programs for CUDA: the result parses, rests, and nothing but what was asked for has changed."""

from __future__ import annotations

import ast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpushim.engine.base.edits import splice
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Mode, Style, Target

IMPORTS = [
    "import torch",
    "import torch as th",
    "from torch import nn",
    "import torch.nn as nn",
    "from torch.cuda.amp import autocast, GradScaler",
    "from torch.amp import autocast, GradScaler",
    "from torch import cuda",
    "import torch.distributed as dist",
    "import torch.backends.cudnn as cudnn",
    "from torch.nn.parallel import DistributedDataParallel as DDP",
    "from torch.nn import DataParallel",
    "from transformers import TrainingArguments",
    "from lightning import Trainer",
    "try:\n    from apex import amp\nexcept ImportError:\n    amp = None",
    "import numpy as np",
    "import argparse",
]
#: Statements that people write for CUDA; some need names that a generated program does not give, which is no matter.
STATEMENTS = [
    "x = x.cuda()",
    "x, y = x.cuda(non_blocking=True), y.to(device)",
    "x = x.to('cuda:0')",
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "device = f'cuda:{rank}'",
    'if device.type == "cuda": x = x.half()',
    'if impl == "cuda" and x.device.type == "cuda": x = kernel(x)',
    "self.place = 'cuda'",
    "x = torch.cuda.FloatTensor(4, n).fill_(1)",
    "x = torch.LongTensor(3).cuda(rank)",
    "cards = [f'cuda:{i}' for i in range(torch.cuda.device_count())]",
    "run(['python', 'train.py', '--device', 'cuda', '--backend=nccl'])",
    "if not torch.cuda.is_available(): raise RuntimeError('CUDA is not available')",
    "assert torch.cuda.is_available(), 'needs a CUDA device'",
    "assert x.is_cuda, ('needs a ' r'cuda tensor, '\n    \"on CUDA\")",
    "optimizer = torch.optim.AdamW(p, fused=True)",
    "model = torch.compile(model, mode='max-autotune')",
    "torch.cuda.empty_cache()\n# the end of the block",
    "if x.is_cuda:\n    torch.cuda.empty_cache()\n    cudnn.benchmark = True",
    "print(f'{torch.cuda.get_device_name(rank)} of {torch.cuda.memory_allocated(rank)}')",
    "lib.impl('op', kernel, 'CUDA')",
    "if self.place == 'cuda': x = x.to(self.place)",
    "torch.cuda.set_device(rank); torch.cuda.empty_cache()",
    "torch.cuda.synchronize()  # wait for the card",
    "# free cached memory\ntorch.cuda.empty_cache()",
    "torch.backends.cudnn.benchmark = True",
    "cudnn.deterministic = True",
    "scaler = GradScaler()",
    "scaler = torch.cuda.amp.GradScaler(enabled=use_amp)",
    "scaler.scale(loss).backward()",
    "# unscale the gradients\nscaler.unscale_(optimizer)",
    "scaler.step(optimizer); scaler.update()",
    "loss.backward()",
    "optimizer.step()",
    "optimizer.step(closure)",
    "total += loss.item()",
    "model = nn.DataParallel(model).cuda()",
    "model = DDP(model, device_ids=[rank], output_device=rank)",
    "out = model(x)",
    "loss = criterion(out, y) / x.size(0)",
    "dist.init_process_group('nccl', rank=rank)",
    "state = torch.load(path, map_location='cuda')",
    "g = torch.Generator(device='cuda')",
    "mask = (x > 0).type(x.type())",
    "T = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor",
    "z = T(3).fill_(0)",
    "a = x.detach().cpu().numpy()",
    "model.share_memory()",
    "s = torch.sparse_coo_tensor(i, v)",
    "model = torch.compile(model, mode='max-autotune')",
    "args = TrainingArguments('out', fp16=True)",
    'trainer = Trainer(accelerator="gpu", precision=16)',
    "parser.add_argument('--no-cuda', action='store_true')",
    'parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])',
    "if 'out of memory' in str(error): raise",
    "x = x.pin_memory() if x.is_xla else x",
    "torch.cuda.manual_seed_all(0)",
    "stream = torch.cuda.Stream()",
    "torch.cuda.max_memory_allocated() / 2**20",
    "torch.set_default_tensor_type('torch.cuda.FloatTensor')",
]
HEADS = [
    "if torch.cuda.is_available():",
    "if use_cuda:",
    "for x, y in loader:",
    "for step, (x, y) in enumerate(loader):",
    "with torch.no_grad():",
    "with torch.cuda.amp.autocast():",
    "with autocast(dtype=torch.float16):",
    "with torch.cuda.stream(stream):",
    "try:",
    "def run(model, loader, x, y, device='cuda'):",
    "class Net(nn.Module):",
    "while True:",
]
KEPT = "kept_{} = call({}, 'cuda', 'runs on nccl')  # loss.cuda() of nccl"


@st.composite
def blocks(draw: st.DrawFn, depth: int = 3) -> list[str]:
    """The lines of one block."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        if depth and draw(st.integers(0, 2)) == 0:
            head = draw(st.sampled_from(HEADS))
            lines.append(head)
            lines += [f"    {line}" if line else "" for line in draw(blocks(depth - 1))]
            if head == "try:":
                lines += ["except RuntimeError as error:", "    pass"]
        else:
            lines += draw(st.sampled_from(STATEMENTS)).split("\n")
        if draw(st.integers(0, 4)) == 0:
            lines.append("")
    return lines


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A program, and the lines in it that no rule may touch."""
    lines = [line for item in draw(st.lists(st.sampled_from(IMPORTS), unique=True, max_size=6))
             for line in item.split("\n")]  # fmt: skip
    kept: list[str] = []
    for number in range(draw(st.integers(1, 3))):
        lines += ["", *draw(blocks())]
        kept.append(KEPT.format(number, number))
        lines.append(kept[-1])
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return newline.join(lines) + newline * draw(st.integers(0, 1)), kept


MODES: list[Mode] = ["portable", "eager", "lazy", "compile"]
STYLES: list[Style] = ["native", "dual"]


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.sampled_from(MODES), st.sampled_from(STYLES), st.booleans())
def test_generated_programs(
    program: tuple[str, list[str]], mode: Mode, style: Style, unsafe: bool
) -> None:
    text, kept = program
    ast.parse(text)
    context = Context(Target(mode=mode, style=style), load(), unsafe=unsafe)
    settled = settle(text, "python", "train.py", context)
    after = settled.text
    ast.parse(after)
    again = settle(after, "python", "train.py", context)
    assert again.text == after
    failures = {"HPU001", "HPU004"}
    said = [f"{f.code} {f.message}" for f in (*settled.findings, *again.findings)]
    assert not [line for line in said if line[:6] in failures]
    assert all(line in after.splitlines() for line in kept)
    assert ("\r\n" in text) or ("\r" not in after)
    # What was written is what the edits say, and nothing else.
    data = text.encode()
    for edits in settled.steps:
        data = splice(data, sorted(edits, key=lambda edit: edit.span))
    assert data.decode() == after
