"""What main scripts do in each step, and how they are started, in forms that unseen repositories showed: forms × fillings."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from one_text import settled
from test_called_in_steps import HEAD, codes, reported

from hpushim.engine.project import migrate
from hpushim.model import Target

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
    "if rate > 1:\n            raise ValueError('%s' % {0})": False,
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


#: What joins the samples' parts in a step, and whether those have a length of their own.
JOINED = {
    "torch.cat([g.nodes for g in graphs], 0).to(device)": True,
    "torch.cat([g.nodes.to(device) for g in graphs])": True,
    "torch.cat([g['x'].float() for g in graphs], dim=0)": True,
    "torch.cat([g.part.x for g in graphs])": True,
    "torch.cat([g.weight for g in graphs])": False,
    "torch.cat([g.data for g in graphs])": False,
    "torch.cat([g.nodes for g in graphs], 1)": False,
    "torch.cat([self.net(g.nodes) for g in graphs])": False,
    "torch.stack([g.nodes for g in graphs])": False,
    "torch.cat([g.nodes for g in self.graphs])": False,
}


@pytest.mark.parametrize("joined", list(JOINED))
@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("class Net(nn.Module):\n    def forward(self, graphs):\n        return {0}\n", True),
        ("class Net(nn.Module):\n    def __init__(self, graphs):\n        self.x = {0}\n", False),
        ("def step(self, graphs):\n    {0}.sum().backward()\n    opt.step()\n", True),
    ],
)
def test_what_objects_of_a_batch_hold_in_one_tensor(tmp_path: Path, joined: str, place: str, told: bool) -> None:  # fmt: skip
    found = codes(reported(tmp_path, {"net.py": HEAD + place.format(joined)}), "net.py")
    assert ("HPU515" in found) == (JOINED[joined] and told)


CHOSEN = {
    "[x for x in batch if x is not None]": True,
    "[x['a'] for x in batch if len(x['a']) > 3]": True,
    "list(filter(None, batch))": True,
    "list(filter(lambda x: x is not None, batch))": True,
    "[x for x in batch]": False,
    "[x for x in range(3) if x > 1]": False,
    "[x if x else y for x in batch]": False,
}
MAKERS = {
    "def collate(batch):\n    y = None\n    return torch.stack({0})\n\n\nloader = DataLoader(rows, 4, collate_fn=collate, drop_last=True)\n": True,
    "class Put:\n    def __call__(self, batch):\n        y = None\n        return torch.stack({0})\n\n\nloader = DataLoader(rows, 4, collate_fn=Put(), drop_last=True)\n": True,
    "def choose(batch):\n    y = None\n    return torch.stack({0})\n\n\nrows = choose(rows)\nloader = DataLoader(rows, 4, drop_last=True)\n": False,
}


@pytest.mark.parametrize("chosen", list(CHOSEN))
@pytest.mark.parametrize("maker", list(MAKERS))
def test_samples_that_are_left_out_of_a_batch(tmp_path: Path, chosen: str, maker: str) -> None:
    text = HEAD + "from torch.utils.data import DataLoader\n\n\n" + maker.format(chosen) + "for x in loader:\n    net(x.to(device)).sum().backward()\n"  # fmt: skip
    found = codes(reported(tmp_path, {"train.py": text}), "train.py")
    assert ("HPU526" in found) == (CHOSEN[chosen] and MAKERS[maker])


@pytest.mark.parametrize(("made", "told"), [("DataLoader(rows, batch_size=32)", True), ("DataLoader(rows, 32, shuffle=True)", True), ("Batch.from_data_list(rows)", True), ("DataLoader(rows, batch_size=1)", False)])  # fmt: skip
@pytest.mark.parametrize(("front", "package"), [("", "torch_geometric.loader"), ("", "torch_geometric.data"), ("lib.", "torch_geometric.data")])  # fmt: skip
def test_graphs_of_any_size_make_a_batch(tmp_path: Path, made: str, told: bool, front: str, package: str) -> None:  # fmt: skip
    names = f"import {package} as lib\n" if front else f"from {package} import DataLoader\nfrom torch_geometric.data import Batch\n"  # fmt: skip
    text = HEAD + names + f"loader = {front}{made}\nnet.to(device)\n"
    assert ("HPU525" in codes(reported(tmp_path, {"train.py": text}), "train.py")) == told


#: Where a step writes, and whether that is another place each time.
WRITTEN = {
    "self.kept[:, at : at + 4] = x": True,
    "self.kept[at] = x[0]": True,
    "self.kept[0][at] += x[0]": True,
    "self.kept[n % 8, :] = x": True,
    "self.kept[int(x[0, 0])] = x": True,
    "self.kept[3] = x": False,
    "self.kept[:, :4] = x": False,
    "self.kept[rows] = x": False,
    "self.names[at] = x": False,
}
STEPS = {
    "    def fit(self, rows):\n        for n, x in enumerate(rows):\n            x = x.to(device)\n            at = int(self.place)\n            {0}\n            self.net(x).sum().backward()\n": True,
    "    def forward(self, x, rows):\n        self.n = n = self.n + 1\n        at = self.place.item()\n        {0}\n        return x\n": True,
    "    def look(self, x, rows, n, at):\n        {0}\n": False,
}


@pytest.mark.parametrize(("written", "step"), crossed(list(WRITTEN), list(STEPS), rounds=3))
def test_a_place_that_a_step_writes_to(tmp_path: Path, written: str, step: str) -> None:
    text = HEAD + "class Bank(nn.Module):\n    def __init__(self, net):\n        super().__init__()\n        self.net, self.n, self.names = net, 0, {{}}\n        self.register_buffer('kept', torch.zeros(4, 8))\n        self.register_buffer('place', torch.zeros(1, dtype=torch.long))\n\n".replace("{{}}", "{}") + step.format(written)  # fmt: skip
    found = codes(reported(tmp_path, {"train.py": text}), "train.py")
    assert ("HPU528" in found) == (WRITTEN[written] and STEPS[step])


#: Files that `migrate` leaves as they are, whatever it does to the rest of the project.
LEFT = {
    "import torch\n\n\ndef put(net, path):\n    state = torch.load(path)\n    net.load_state_dict(state)\n    return state\n": "HPU613",
    "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x[x > 0].sum().item()\n": "HPU515",
    "import torch\n\n\ndef put(batch):\n    n = max(len(x) for x in batch)\n    return torch.zeros(n)\n\n\nloader = torch.utils.data.DataLoader(rows, 4, collate_fn=put)\n": "HPU525",
    "from torch.utils.data import DataLoader\n\n\ndef loaders(train_data):\n    return DataLoader(train_data, 8, shuffle=True, num_workers=4)\n": "HPU526",
}
USERS = ["device = torch.device('cuda')\nnet.to(device)\n", "net.cuda()\nx = x.cuda()\n", "net.to('cuda:0')\n"]  # fmt: skip


@pytest.mark.parametrize("left", list(LEFT))
@pytest.mark.parametrize("user", USERS)
def test_a_file_that_stays_keeps_its_findings(tmp_path: Path, left: str, user: str) -> None:
    files = {"left.py": left, "train.py": "import torch\nfrom left import *\n\n" + user + "net(x).sum().backward()\nopt.step()\n"}  # fmt: skip
    before = codes(reported(tmp_path, files), "left.py")
    migrate([tmp_path], Target(), jobs=1)
    assert "hpu" in (tmp_path / "train.py").read_text()
    assert (tmp_path / "left.py").read_text() == left
    assert LEFT[left] in before
    assert codes(reported(tmp_path, {}), "left.py") == before


#: A size in a method that gives batches, and whether each batch has one of its own.
CUTS = {
    "self.rows[at : at + self.counts[n]]": True,
    "self.rows[at:end]": True,
    "self.rows[:, : self.lengths[n].item()]": True,
    "self.rows[:, 1 : length - 1]": True,
    "self.rows[at : at + self.size]": False,
    "self.rows[at : at + 32]": False,
    "self.rows[1:-1]": False,
}


@pytest.mark.parametrize("cut", list(CUTS))
@pytest.mark.parametrize("method", ["__getitem__(self, n)", "next_batch(self, n)", "read(self, n)"])
@pytest.mark.parametrize(("base", "loader", "own"), [("", "", True), ("(object)", "", True), ("(torch.utils.data.Dataset)", "", False), ("", "loader = torch.utils.data.DataLoader(data)\n", False)])  # fmt: skip
def test_batches_of_an_object_of_the_project(tmp_path: Path, cut: str, method: str, base: str, loader: str, own: bool) -> None:  # fmt: skip
    text = f"import torch\n\n\nclass Rows{base}:\n    def {method}:\n        at = self.starts[n]\n        end = at + self.counts[n]\n        length = self.lengths[n]\n        return {cut}\n"  # fmt: skip
    files = {"rows.py": text, "train.py": HEAD + "from rows import Rows\n" + loader + "for n in range(9):\n    net(data[n].to(device)).sum().backward()\n"}  # fmt: skip
    told = "HPU515" in codes(reported(tmp_path, files), "rows.py")
    assert told == (CUTS[cut] and own and not method.startswith("read"))


#: What else is done with what a batch is cut out of, and whether that is no text and no list.
USED = {"": True, "self.rows.sum()": True, "self.rows.split(3)": True, "self.rows.append(n)": False, "self.rows.lower()": False, "self.rows.encode()": False}  # fmt: skip


@pytest.mark.parametrize("use", USED)
@pytest.mark.parametrize("cut", ["self.rows[: self.counts[n]]", "self.rows[at : at + self.counts[n]]", '"abc"[: self.counts[n]]'])  # fmt: skip
def test_texts_and_lists_have_no_shape(tmp_path: Path, cut: str, use: str) -> None:
    text = f"import torch\n\n\nclass Rows:\n    def read(self, n):\n        return {use}\n\n    def next_batch(self, n):\n        at = self.starts[n]\n        return {cut}\n"
    files = {"rows.py": text, "train.py": HEAD + "from rows import Rows\nfor n in range(9):\n    net(data[n].to(device)).sum().backward()\n"}  # fmt: skip
    told = "HPU515" in codes(reported(tmp_path, files), "rows.py")
    assert told == (USED[use] and not cut.startswith('"'))


#: Sizes of what a step cuts out, and whether they are random.
BOXES = {
    "a, b = np.random.randint(8), np.random.randint(8)": True,
    "a, b = box(x.shape, np.random.beta(1, 1))": True,
    "a = random.randint(1, 4)\n        c = random.choice([2, 4])\n        b = a + c": True,
    "a, b = 2, 6": False,
    "a, b = box(x.shape, 0.5)": False,
}
CUT = {"x[:, a:b] = 0": True, "x = x[:, :, a:b]": True, "x = x[:, :b]": True, "x = x[:, a : a + 4]": False, "x = x[a]": False, "x = x[:, a * 4 : (a + 1) * 4]": False}  # fmt: skip


@pytest.mark.parametrize("box", list(BOXES))
@pytest.mark.parametrize("cut", list(CUT))
@pytest.mark.parametrize(("step", "told"), [("for x in data:\n        x = x.to(device)\n        {0}\n        {1}\n        net(x).sum().backward()\n", True), ("for n in range(3):\n        x = data[n].clone()\n        {0}\n        {1}\n        keep(x)\n", False)])  # fmt: skip
def test_what_a_step_cuts_out_at_random(tmp_path: Path, box: str, cut: str, step: str, told: bool) -> None:  # fmt: skip
    head = "import random\nimport numpy as np\n" + HEAD + "def box(shape, share):\n    most = int(shape[2] * share)\n    return np.clip(4 - most // 2, 0, 8), np.clip(4 + most // 2, 0, 8)\n\n\n"  # fmt: skip
    text = head + "def train(net, data, keep):\n    net.to(device)\n    " + step.format(box, cut)
    found = codes(reported(tmp_path, {"train.py": text}), "train.py")
    assert ("HPU515" in found) == (BOXES[box] and CUT[cut] and told)
