"""Sizes and conditions that tensors decide in what a step runs, and what is said of a file before and after its port."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from test_called_in_steps import HEAD, codes, reported

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine, settle
from hpushim.matrix import load
from hpushim.model import Target

#: What is cut or made, and whether a tensor's value says its size.
SIZES = {
    "y = x[b : b + 1, :, : lens[b]].clone()": True,
    "x[b, : lens[b]] = 0.0": True,
    "y = [x[i][: int(n)] for i, n in enumerate(lens)]": True,
    "y = torch.arange(1, lens[b] + 1)": True,
    "n = lens.max()\n    y = x[:, :n]": True,
    "n = torch.max(lens).item()\n    y = torch.zeros(3, n)": True,
    "n = max(len(t) for t in lens)\n    y = torch.zeros(3, n, 6)": True,
    "n = (x > 0).sum()\n    y = x[n:]": True,
    "y = x[b : b + 1, :, : lens.shape[0]]": False,
    "y = x[:, :width]": False,
    "n = x.size(1) // 2\n    y = x[:, :n]": False,
    "y = torch.zeros(3, len(lens))": False,
    "n = lens[b].item()\n    y = x[n : n + 8]": False,
    "y = names[: lens[0]]": False,
}
#: Where ``cut`` of another file, or a method of that text, is called, and whether a step runs it.
USERS = {
    "class Net(nn.Module):\n    def forward(self, x, lens):\n        return cut(x, lens, 1, 3)\n": True,
    "class Loss(nn.Module):\n    def forward(self, x, lens):\n        return self.part(x, lens)\n\n    def part(self, x, lens):\n        return cut(x, lens, 1, 3)\n": True,
    "def step(x, lens):\n    y = cut(x, lens, 1, 3)\n    net(x.to(device)).sum().backward()\n": True,
    "class Net(nn.Module):\n    def __init__(self, x, lens):\n        self.y = cut(x, lens, 1, 3)\n\n    def forward(self, x):\n        return x\n": False,
    "class Net(nn.Module):\n    def forward(self, x):\n        return x\n\n    def export(self, x, lens):\n        return cut(x, lens, 1, 3)\n": False,
    "def look(x, lens):\n    return cut(x, lens, 1, 3)\n": False,
}
TAKEN = ["from lib.parts import cut\n", "from lib.parts import *\n", "from lib.parts import other, cut\r\n"]  # fmt: skip


def as_function(body: str) -> str:
    return f"def cut(x: torch.Tensor, lens: torch.Tensor, b, width, names=()):\n    {body}\n    return x\n"


@pytest.mark.parametrize(("size", "user", "taken"), crossed(list(SIZES), list(USERS), TAKEN, rounds=4))  # fmt: skip
def test_a_size_by_a_tensors_value(tmp_path: Path, size: str, user: str, taken: str) -> None:
    text = taken.replace("\r", "") + HEAD + user
    files = {"lib/parts.py": HEAD + as_function(size), "train.py": text + "\nfor x in data:\n    net(x.to(device)).sum().backward()\n"}  # fmt: skip
    if "\r" in taken:
        files = {name: text.replace("\n", "\r\n") for name, text in files.items()}
    assert ("HPU515" in codes(reported(tmp_path, files), "lib/parts.py")) == (SIZES[size] and USERS[user])  # fmt: skip


@pytest.mark.parametrize("size", list(SIZES))
def test_a_size_in_a_criterion_that_names_no_device(tmp_path: Path, size: str) -> None:
    text = "import torch\nfrom torch import nn\n\n\nclass Loss(nn.Module):\n    def forward(self, x, lens, b, width, names=()):\n        {0}\n        return torch.arange(3)[b], x.relu(), lens\n"  # fmt: skip
    body = size.replace("\n    ", "\n        ").replace("x[b, : lens[b]] = 0.0", "x = x * 2\n        x[b, : lens[b]] = 0.0")  # fmt: skip
    files = {"lib/loss.py": text.format(body), "train.py": "from lib.loss import Loss\n" + HEAD + "for x in data:\n    Loss()(net(x.to(device))).sum().backward()\n"}  # fmt: skip
    assert ("HPU515" in codes(reported(tmp_path, files), "lib/loss.py")) == SIZES[size]


CONDITIONS = {
    "if torch.sum(x > 0) > 0:": True,
    "if (x > 0).sum() > 0:": True,
    "n = (x > 0).sum().float()\n    if n > 0:": True,
    "n = torch.sum(x > 0)\n    if 0 < n and width:": True,
    "assert not torch.isnan(x).any()\n    if width:": True,
    "n = (x > 0).sum().item()\n    if width:": True,
    "n = sum(names)\n    if n > 0:": False,
    "if width > 3:": False,
    "if x.shape[0] > 3:": False,
    "n = int(width / 2)\n    if n > 0:": False,
    "names = [int(x) for x in names.split(',')]\n    if width:": False,
}


@pytest.mark.parametrize(("test", "user"), crossed(list(CONDITIONS), list(USERS), rounds=6))
def test_a_condition_on_a_tensor(tmp_path: Path, test: str, user: str) -> None:
    body = as_function(f"{test}\n        x = x * 2")
    files = {"lib/parts.py": HEAD + body, "train.py": TAKEN[0] + HEAD + user + "\nfor x in data:\n    net(x.to(device)).sum().backward()\n"}  # fmt: skip
    told = CONDITIONS[test] and USERS[user]
    assert ("HPU513" in codes(reported(tmp_path, files), "lib/parts.py")) == told


#: What a file moves with, and what is said of it that no rewrite changes.
MOVES = ["net.cuda()", 'net.to("cuda")', 'net.to(torch.device("cuda"))', 'x = torch.ones(3, device="cuda")', 'dist.init_process_group("nccl")']  # fmt: skip
SAID = {
    "HPU513": "class Dice(nn.Module):\n    def forward(self, x, t):\n        return 1 - torch.sum(x * t).item()\n",
    "HPU515": "class Cut(nn.Module):\n    def forward(self, x, y):\n        return x[x > y].mean()\n",
    "HPU524": "def sample(x, device):\n    out = torch.zeros(1, device=device)\n    for _ in range(9):\n        out = torch.cat((out, net(out)), dim=-1)\n",
    "HPU526": "loader = DataLoader(data, batch_size=4, shuffle=True)\nfor x in loader:\n    net(x.to(device))\n",
    "HPU325": "loader = DataLoader(data, num_workers=4)\n",
}


@pytest.mark.parametrize("mode", ["eager", "lazy", "portable"])
@pytest.mark.parametrize(("move", "code"), crossed(MOVES, list(SAID), rounds=5))
def test_what_is_said_before_a_port_is_said_after_it(move: str, code: str, mode: str) -> None:
    context = Context(Target(mode=mode), load())  # type: ignore[arg-type]
    text = f"import torch\nimport torch.distributed as dist\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n\n\n{SAID[code]}\n\ndef start(net):\n    {move}\n"  # fmt: skip
    before = {f.code for f in examine(text, "python", "a.py", context)}
    after = {f.code for f in examine(settle(text, "python", "a.py", context).text, "python", "a.py", context)}  # fmt: skip
    assert (code in before, code in after) == (True, True)


#: What a checkpoint's table holds beside a state, and whether torch's default refuses to load it.
KEPT = {
    "best = np.mean(scores)": True,
    "best = net.weight.detach().cpu().numpy()": True,
    "last = np.mean(scores)\n    best = 1e9\n    best = min(best, last)": True,
    "best = np.random.RandomState(0)": True,
    "best = float(np.mean(scores))": False,
    "best = np.mean(scores).item()": False,
    "best = np.inf\n    best = 3.0": False,
    "best = np.mean(scores)\n    best = criterion(scores)": False,
    "best = 1e9": False,
}


@pytest.mark.parametrize("load", ["ck = torch.load(path)\n    return ck['model'], ck['best']", "state = torch.load(path, map_location='cpu')\n    net.load_state_dict(state['model'])\n    return state['best']"])  # fmt: skip
@pytest.mark.parametrize("kept", list(KEPT))
def test_a_checkpoint_with_a_value_of_numpy(tmp_path: Path, kept: str, load: str) -> None:
    save = f"import numpy as np\n{HEAD}def save(net, scores, path):\n    {kept}\n    torch.save({{'model': net.state_dict(), 'best': best}}, path)\n"  # fmt: skip
    files = {"lib/save.py": save, "train.py": f"{HEAD}def resume(net, path):\n    {load}\n"}
    assert ("HPU615" in codes(reported(tmp_path, files), "train.py")) == KEPT[kept]


@pytest.mark.parametrize(("load", "array"), [("torch.from_numpy(torch.load(path))", True), ("torch.from_numpy(kept)", True), ("kept.cuda()", False)])  # fmt: skip
def test_an_array_that_is_loaded_lies_on_no_device(tmp_path: Path, load: str, array: bool) -> None:
    text = f"{HEAD}def resume(path):\n    kept = torch.load(path)\n    return {load}, torch.ones(1).cuda()\n"  # fmt: skip
    if "kept" not in load:
        text = text.replace("    kept = torch.load(path)\n", "")
    told = codes(reported(tmp_path, {"train.py": text}), "train.py")
    assert ("HPU615" in told, "HPU613" in told) == (array, not array)


#: Where ``look`` is called, and whether what it makes may be bfloat16.
LOOKS = {"look(net, x)": False, "with torch.autocast(device):\n        look(net, x)": True}
READ = {"y = net(x)\n    return y.cpu().numpy()": False, "y = net(x)\n    y = y[0]\n    return y.data.cpu().numpy()": False, "return x.cpu().numpy()": True, "y = x * 2\n    return y.cpu().numpy()": True}  # fmt: skip


@pytest.mark.parametrize(("look", "read"), crossed(list(LOOKS), list(READ), rounds=4))
@pytest.mark.parametrize("other", ["", "net.half()\n"])
def test_what_a_model_gives_outside_autocast_is_float32(tmp_path: Path, look: str, read: str, other: str) -> None:  # fmt: skip
    text = f"{HEAD}def look(net, x):\n    {read}\n\n\n{other}def main(net, x):\n    with torch.autocast(device):\n        net(x).sum().backward()\n    {look}\n"  # fmt: skip
    told = "HPU120" in codes(reported(tmp_path, {"train.py": text}), "train.py")
    assert told == (LOOKS[look] or READ[read] or bool(other))


@pytest.mark.parametrize(("moved", "told"), [("y = y.cpu()", False), ("y = y.cpu()\n        if x.shape[0] > 2:\n            y = torch.relu(y)", False), ("if x.shape[0] > 2:\n            y = y.cpu()", True), ("y = y.relu()", True)])  # fmt: skip
@pytest.mark.parametrize("name", ["mask", "(y > 0)"])
def test_what_is_selected_on_the_cpu_costs_nothing(tmp_path: Path, moved: str, told: bool, name: str) -> None:  # fmt: skip
    text = f"{HEAD}def look(net, data):\n    for x in data:\n        y = net(x.to(device)).relu()\n        {moved}\n        mask = y > 1\n        print((y == 2)[{name}].float())\n"  # fmt: skip
    assert ("HPU515" in codes(reported(tmp_path, {"train.py": text}), "train.py")) == told


#: What an optimizer of the project does with a number, and whether that is another one in each step.
DONE = {
    "p.addcdiv_(-size, m, v)": True,
    "p.addcdiv_(m, v, value=-size)": True,
    "p.add_(m, alpha=-group['lr'] / (1 - 0.9 ** state['step']))": True,
    "rate = group['lr']\n                rate = rate / scale\n                p.addcdiv_(-rate, m, v)": True,
    "p.add_(m, alpha=-group['lr'])": False,
    "p.add_(m * size)": False,
    "p.mul_(0.9).add_(m, alpha=0.1)": False,
}


@pytest.mark.parametrize("done", list(DONE))
@pytest.mark.parametrize(("base", "own"), [("torch.optim.Optimizer", True), ("Base", False)])
@pytest.mark.parametrize("mode", ["eager", "portable", "lazy"])
def test_a_number_that_changes_in_each_step(done: str, base: str, own: bool, mode: str) -> None:
    context = Context(Target(mode=mode), load())  # type: ignore[arg-type]
    text = f"import torch\n\nnet.cuda()\n\n\nclass Base:\n    pass\n\n\nclass Adam({base}):\n    def step(self):\n        for group in self.param_groups:\n            for p in group['params']:\n                state = self.state[p]\n                m, v = state['m'], state['v']\n                scale = 1 - 0.9 ** state['step']\n                size = group['lr'] / scale\n                {done}\n"  # fmt: skip
    told = "HPU514" in {f.code for f in examine(text, "python", "a.py", context)}
    assert told == (DONE[done] and own and mode != "lazy")


#: The bases of a class that a program loads with, and whether it is a loader of torch.
LOADERS = {
    "DataLoader": True,
    "torch.utils.data.DataLoader": True,
    "Base": True,
    "object": False,
    "Dataset": False,
}


@pytest.mark.parametrize("base", LOADERS)
@pytest.mark.parametrize("workers", ["num_workers=4", "num_workers=args.workers", "num_workers=0"])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_workers_of_a_loader_of_the_project(tmp_path: Path, base: str, workers: str, elsewhere: bool) -> None:  # fmt: skip
    made = f"from torch.utils.data import DataLoader, Dataset\n\n\nclass Base(DataLoader):\n    pass\n\n\nclass Own({base}):\n    pass\n\n\n"
    files = {"lib/data.py": "import torch\n" + made, "train.py": HEAD + ("from lib.data import Own\n" if elsewhere else made) + f"for x in Own(data, {workers}):\n    net(x.to(device)).sum().backward()\n"}  # fmt: skip
    told = LOADERS[base] and not workers.endswith("0")
    assert ("HPU325" in codes(reported(tmp_path, files), "train.py")) == told
