"""What main scripts do in each step, and how they are started, in forms that unseen repositories showed: forms × fillings."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from one_text import settled
from test_called_in_steps import HEAD, codes, reported

#: What shows a value in a step, and whether that reads it from the device.
SHOWN = {
    "writer.add_scalar('a', {0}, n)": True,
    "board.add_scalars('a', {{'b': {0}}}, n)": True,
    "wandb.log({{'a': {0}}})": True,
    "print('a', {0})": True,
    "print(f'a {{{0}}}')": True,
    "log.info('%s', {0})": True,
    "bar.set_postfix(a={0})": True,
    "bar.set_description('a %s' % {0})": True,
    "kept.append({0})": False,
    "kept.update(a={0})": False,
    "torch.log({0})": False,
    "if n % 50 == 0:\n            print({0})": False,
}
#: Values of a step.
VALUES = {
    "out.mean()": True,
    "torch.sum(out) / 4": True,
    "part": True,
    "F.mse_loss(out, y)": True,
    "out.shape": False,
    "len(out)": False,
    "out.size(0) * 2": False,
    "n": False,
    "rate": False,
}
LOOP = "def run(net, data, opt, writer, rate=0.1):\n    for n, (x, y) in enumerate(data):\n        out = net(x.to(device))\n        part = F.l1_loss(out, y.to(device))\n        (part + 1).backward()\n        opt.step()\n        {0}\n"  # fmt: skip


@pytest.mark.parametrize(("shows", "value"), crossed(list(SHOWN), list(VALUES), rounds=5))
def test_what_shows_a_value_of_the_step_reads_it(tmp_path: Path, shows: str, value: str) -> None:
    report = reported(tmp_path, {"train.py": HEAD + LOOP.format(shows.format(value))})
    assert ("HPU513" in codes(report, "train.py")) == (SHOWN[shows] and VALUES[value])


@pytest.mark.parametrize("count", ["torch.cuda.device_count()", "n_gpu", "args.ngpus"])
@pytest.mark.parametrize("scaled", ["batch = 64 // {0}", "batch = int(64 / {0})", "lr = 0.1 * {0}", "workers = (8 + {0} - 1) // {0}"])  # fmt: skip
@pytest.mark.parametrize(("start", "told"), [("mp.spawn(work, nprocs={0}, args=(4,))", False), ("mp.spawn(work, (4,), {0})", False), ("mp.spawn(work, nprocs=4)", True), ("work({0})", True)])  # fmt: skip
def test_a_count_of_processes_is_no_count_of_devices(count: str, scaled: str, start: str, told: bool) -> None:  # fmt: skip
    text = f"import torch\nimport torch.multiprocessing as mp\n\nn_gpu = args.ngpus = torch.cuda.device_count()\n{scaled.format(count)}\n{start.format(count)}\n"  # fmt: skip
    assert ("HPU323" in settled(text)[1]) == told


#: Options of commands, and whether they request what only CUDA has.
OPTIONS = {
    "--tf32 True": True,
    "--tf32 --bf16": True,
    "--optim paged_adamw_8bit": True,
    "--optim=adamw_bnb_8bit": True,
    "--use_liger_kernel true": True,
    "--trainer.accelerator gpu": True,
    "--trainer.gpus=2": True,
    "trainer.gpus=2": True,
    "--tf32 False": False,
    "--optim adamw_torch": False,
    "--use_liger_kernel false": False,
    "--trainer.accelerator cpu": False,
    "--trainer.gpus 0": False,
    "--trainer.devices 2": False,
}
STARTS = ["torchrun --nproc_per_node=8 train.py {0}", "deepspeed train.py --bf16 True \\\n    {0}", "accelerate launch train.py {0} --seed 1", "python train.py fit {0}"]  # fmt: skip


@pytest.mark.parametrize("option", list(OPTIONS))
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("kind", "name", "code"), [("shell", "run.sh", "HPU806"), ("markdown", "README.md", "HPU822")])  # fmt: skip
def test_an_option_for_cuda_in_a_command(option: str, start: str, kind: str, name: str, code: str) -> None:  # fmt: skip
    command = start.format(option)
    text = f"```bash\n{command}\n```\n" if kind == "markdown" else f"#!/bin/bash\n{command}\n"
    assert (code in settled(text, kind, name)[1]) == OPTIONS[option]


@pytest.mark.parametrize(("option", "told"), [("--nproc_per_node gpu", True), ("--nproc-per-node=gpu", True), ("--nproc_per_node 8", False)])  # fmt: skip
def test_a_launcher_that_counts_gpus(option: str, told: bool) -> None:
    assert ("HPU806" in settled(f"torchrun {option} train.py\n", "shell", "run.sh")[1]) == told


#: Numbers that methods are given in a step, and whether each step has another one.
NUMBERS = {
    "1 - min(1 - 1 / (n + 1), 0.9)": True,
    "1 / (self.seen + 1)": True,
    "0.9 ** self.seen": True,
    "-group['lr']": True,
    "rate(n)": True,
    "ramp.up(n, 100)": True,
    "table[n]": True,
    "0.1": False,
    "self.most": False,
    "-group['eps']": False,
    "1 - len(group)": False,
    "rate(3)": False,
}
TAKEN = {"p.add_(q, alpha={0})": True, "p.data.mul_(0.9).add_({0}, q.data)": True, "p.addcdiv_(q, m, value={0})": True, "p.addcmul_({0}, q, m)": True, "p.add_(q * ({0}))": False, "p.mul_({0})": False}  # fmt: skip
#: Where: in a loop, in a method that the loop calls, once.
AROUND = {
    "class Coach:\n    def fit(self, p, q, m, group, table, most):\n        self.seen, self.most = 0, most\n        for n, x in enumerate(data):\n            net(x.to(device)).sum().backward()\n            opt.step()\n            self.seen += 1\n            {0}\n": True,
    "class Coach:\n    def fit(self, most):\n        self.most = most\n        for n, x in enumerate(data):\n            net(x.to(device)).sum().backward()\n            self.seen = self.seen + 1\n            self.follow(x, x, x, {{}}, [], n)\n\n    def follow(self, p, q, m, group, table, n):\n        {0}\n": True,
    "class Coach:\n    def fit(self, p, q, m, group, table, n):\n        self.seen = 0\n        {0}\n": False,
}


@pytest.mark.parametrize(("number", "taken", "around"), crossed(list(NUMBERS), list(TAKEN), list(AROUND), rounds=5))  # fmt: skip
def test_a_number_of_the_step_that_is_a_part_of_the_graph(
    tmp_path: Path, number: str, taken: str, around: str
) -> None:
    text = HEAD + "import ramp\n\n\ndef rate(n):\n    return 1 / (n + 1)\n\n\n" + around.format(taken.format(number)) + "\n\nscheduler = torch.optim.lr_scheduler.StepLR(opt, 1)\n"  # fmt: skip
    told = "HPU514" in codes(reported(tmp_path, {"train.py": text, "ramp.py": "def up(n, most):\n    return n / most\n"}), "train.py")  # fmt: skip
    assert told == (NUMBERS[number] and TAKEN[taken] and AROUND[around])
