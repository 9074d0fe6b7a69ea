"""What makes a batch of samples, found through the project: which of its lengths are those of the longest, and which methods a step reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from test_called_in_steps import HEAD, codes, reported

TRAIN = HEAD + "net = nn.Linear(3, 3).to(device)\nfor x in loader:\n    net(x.to(device)).sum().backward()\n"  # fmt: skip

#: The body of ``widths(rows)``, and whether it says the length of the longest row.
LONGEST = {
    "return max(r.shape[-1] for r in rows)": True,
    "return max([r.size(1) for r in rows])": True,
    "return max(map(len, rows))": True,
    "return np.amax([r.shape for r in rows], 0)": True,
    "sizes = [len(r) for r in rows]\n    return max(sizes)": True,
    "top = 0\n    for r in rows:\n        top = max(top, r)\n    return top": True,
    "return max(r.score for r in rows)": False,
    "return max(rows[0], 16)": False,
    "return len(rows)": False,
}
#: How a loader comes to that function, and whether it makes batches with it.
LOADERS = {
    "import numpy as np\nfrom lib.sizes import widths\n\n\ndef put(rows):\n    return widths(rows)\n\n\nloader = DataLoader(rows, 4, collate_fn=put)\n": True,
    "from lib.sizes import widths\n\n\nclass Rows(Dataset):\n    def put(self, rows):\n        return self.both(rows)\n\n    def both(self, rows):\n        return widths(rows)\n\n\ndata = Rows()\nloader = make(data, collate_fn=data.put)\n": True,
    "from lib import sizes\n\n\nclass Put:\n    def __call__(self, rows):\n        return sizes.widths(rows)\n\n\nput = Put()\nloader = DataLoader(rows, 4, collate_fn=put)\n": True,
    "from functools import partial\nfrom lib.sizes import widths\n\nloader = DataLoader(rows, 4, collate_fn=partial(widths))\n": True,
    "from lib.sizes import widths\n\n\nclass RowCollator:\n    def torch_call(self, rows):\n        return widths(rows)\n": True,
    "from lib.sizes import widths\n\n\nclass Rows(Dataset):\n    def __init__(self, rows):\n        self.width = widths(rows)\n\n    def put(self, rows):\n        return rows\n\n\nloader = DataLoader(rows, 4, collate_fn=Rows(rows).put)\n": False,
    "from lib.sizes import widths\n\n\ndef prepare(rows):\n    return widths(rows)\n\n\nloader = DataLoader(rows, 4, collate_fn=None)\n": False,
}


@pytest.mark.parametrize(("body", "loader"), crossed(list(LONGEST), list(LOADERS), rounds=3))
def test_the_longest_of_a_batch_by_who_makes_it(tmp_path: Path, body: str, loader: str) -> None:
    head = "import torch\nfrom torch.utils.data import DataLoader, Dataset\n"
    files = {"lib/sizes.py": f"import numpy as np\nimport torch\n\n\ndef widths(rows):\n    {body}\n", "lib/data.py": head + loader, "train.py": "from lib.data import loader\n" + TRAIN}  # fmt: skip
    told = LONGEST[body] and LOADERS[loader]
    assert ("HPU525" in codes(reported(tmp_path, files), "lib/sizes.py")) == told
    here = {"lib/sizes.py": "", "lib/data.py": head + "import numpy as np\n" + f"\n\ndef widths(rows):\n    {body}\n\n\n" + "".join(line + "\n" for line in loader.replace("sizes.widths", "widths").splitlines() if "lib" not in line)}  # fmt: skip
    assert ("HPU525" in codes(reported(tmp_path, here), "lib/data.py")) == told


PADDED = {
    "self.prepare(texts=x, return_tensors='pt', padding={0})": True,
    "reader.apply_template(x, padding={0}, truncation=True)": True,
    "tokens(x, padding={0})": True,
    "UNet(3, padding={0})": False,
    "self.conv(x, 3, padding={0})": False,
}


@pytest.mark.parametrize("call", list(PADDED))
@pytest.mark.parametrize(("padding", "told"), [("True", True), ("'longest'", True), ("'max_length'", False)])  # fmt: skip
@pytest.mark.parametrize(("multiple", "rounded"), [("", False), (", pad_to_multiple_of=8", False), (", pad_to_multiple_of=256", True)])  # fmt: skip
def test_what_is_given_as_texts_are_is_padded(tmp_path: Path, call: str, padding: str, told: bool, multiple: str, rounded: bool) -> None:  # fmt: skip
    made = call.format(padding)[:-1] + multiple + ")"
    text = HEAD + f"def step(self, x, reader, tokens):\n    y = {made}\n    net(y.to(device)).sum().backward()\n"  # fmt: skip
    found = codes(reported(tmp_path, {"train.py": text}), "train.py")
    assert ("HPU525" in found) == (PADDED[call] and told and not rounded)


#: A method of a plain class in another file, and who calls it.
OWNERS = {
    "class Process:\n    def losses(self, x):\n        return {0}\n": True,
    "class Process:\n    def losses(self, x):\n        return self.part(x)\n\n    def part(self, x):\n        return {0}\n": True,
    "class Base:\n    def losses(self, x):\n        return self.part(x)\n\n\nclass Process(Base):\n    def part(self, x):\n        return {0}\n": True,
    "class Process:\n    def losses(self, x):\n        if self.log_every:\n            print({0})\n        return x\n": False,
    "class Process:\n    def __init__(self, x):\n        self.n = {0}\n\n    def losses(self, x):\n        return x\n": False,
    "class Process:\n    def losses(self, x):\n        return x\n\n\nclass Other:\n    def show(self, x):\n        return {0}\n": False,
    "class Process:\n    def losses(self, x):\n        return x\n\n\nclass Other:\n    def losses(self, x):\n        return {0}\n": False,
}
CALLERS = {
    "for x in data:\n    made.losses(x.to(device)).backward()\n": True,
    "class Net(nn.Module):\n    def forward(self, x):\n        return self.process.losses(x)\n": True,
    "class Coach:\n    def run(self):\n        for x in self.data:\n            self.one(x)\n            self.net(x.to(device)).backward()\n\n    def one(self, x):\n        return self.process.losses(x)\n": True,
    "def look(made, x):\n    return made.losses(x.to(device))\n": False,
}
COSTS = {
    "torch.relu(x).sum().item()": "HPU513",
    "torch.relu(x).nonzero()": "HPU515",
    "x[torch.relu(x) > 0], torch.relu(x).masked_select(x > 0)": "HPU515",
}


@pytest.mark.parametrize(("owner", "caller", "cost"), crossed(list(OWNERS), list(CALLERS), list(COSTS), rounds=6))  # fmt: skip
def test_methods_that_a_step_reaches_in_files_that_name_no_device(tmp_path: Path, owner: str, caller: str, cost: str) -> None:  # fmt: skip
    files = {"lib/process.py": "import torch\n\n\n" + owner.format(cost), "train.py": "from lib.process import *\n" + HEAD + f"def main(data, made, net):\n    {'    '.join(caller.splitlines(True))}" if caller.startswith("for") else "from lib.process import *\n" + HEAD + caller + "\n\ndef main(data):\n    for x in data:\n        Net()(x.to(device)).sum().backward()\n"}  # fmt: skip
    told = OWNERS[owner] and CALLERS[caller]
    if COSTS[cost] == "HPU515" and "log_every" in owner:
        return  # a shape is one for a graph, however seldom
    assert (COSTS[cost] in codes(reported(tmp_path, files), "lib/process.py")) == told
