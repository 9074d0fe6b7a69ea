"""Masks by their last value, samples' parts in one tensor, lengths that a loop keeps, what a progress bar shows, caches that nobody chose."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from test_called_in_steps import HEAD, codes, reported

#: How a mask is made in a module, and whether it is one.
MASKS = {
    "keep = torch.tensor(draw(3), device=x.device, dtype=torch.bool)": ("keep", True),
    "keep = draw(3)\n        keep = torch.as_tensor(keep, device=x.device).bool()": ("keep", True),
    "keep = (x == y).all(-1)": ("keep", True),
    "keep = (x > y).any(dim=1)": ("keep", True),
    "keep = y.unsqueeze(-1).repeat(1, 3)": ("~keep", True),
    "keep = draw(3)": ("keep", False),
    "keep = y.argmax(-1)": ("keep", False),
    "keep = x.all": ("keep", False),
}
USES = ["x[{0}] = self.e", "x = x[{0}]", "x[{0}, :] = 0"]
NOTES = ["x: torch.Tensor, y: torch.LongTensor", "x: torch.tensor, y", "x, y: torch.Tensor | None"]


@pytest.mark.parametrize(("mask", "use", "note"), crossed(list(MASKS), USES, NOTES, rounds=4))
def test_what_a_name_was_given_last_says_whether_it_is_a_mask(tmp_path: Path, mask: str, use: str, note: str) -> None:  # fmt: skip
    index, told = MASKS[mask]
    text = "import numpy as np\n" + HEAD + f"def draw(n):\n    return np.zeros(n, dtype=bool)\n\n\nclass Net(nn.Module):\n    def forward(self, {note}):\n        x = torch.relu(x)\n        {mask}\n        {use.format(index)}\n        return x\n\n\nnet = Net().to(device)\n"  # fmt: skip
    assert ("HPU515" in codes(reported(tmp_path, {"net.py": text}), "net.py")) == told


PARTS = {
    "torch.cat([t['labels'] for t in targets])": True,
    "torch.cat([t['boxes'][i] for t, (_, i) in zip(targets, pairs)], dim=0)": True,
    "torch.cat([source for (source, _) in pairs])": True,
    "torch.cat([t['labels'] for t in targets], dim=1)": False,
    "torch.stack([t['labels'] for t in targets])": False,
    "torch.cat([self.layer(t) for t in targets])": False,
    "torch.cat([t for t in targets])": False,
    "torch.cat([self.heads['a'], x])": False,
}
PLACES = {
    "class Loss(nn.Module):\n    def forward(self, x, targets, pairs):\n        return {0}\n": True,
    "class Loss(nn.Module):\n    def forward(self, x, targets, pairs):\n        return self.labels(x, targets, pairs)\n\n    def labels(self, x, targets, pairs):\n        return {0}\n": True,
    "class Net(nn.Module):\n    def __init__(self, x, targets, pairs):\n        self.y = {0}\n\n    def forward(self, x):\n        return x\n": False,
    "class Net(nn.Module):\n    def forward(self, x):\n        return x\n\n    def validation_epoch_end(self, x, targets, pairs):\n        return {0}\n": False,
}


@pytest.mark.parametrize(("parts", "place"), crossed(list(PARTS), list(PLACES), rounds=4))
def test_samples_parts_in_one_tensor(tmp_path: Path, parts: str, place: str) -> None:
    files = {"loss.py": "import torch\nfrom torch import nn\n\n\n" + place.format(parts) + "\n\ndef count(x):\n    return x.max()\n", "train.py": HEAD + "from loss import *\n\nfor x in data:\n    net(x.to(device)).sum().backward()\n"}  # fmt: skip
    told = PARTS[parts] and PLACES[place]
    assert ("HPU515" in codes(reported(tmp_path, files), "loss.py")) == told


KEPT = {
    "for group in chunks:\n        top = None\n        for row in group:\n            n = len(row)\n            top = n if top is None else top\n            top = max(top, n)\n        y = pad_rows(top, group)": True,
    "for group in chunks:\n        top = 0\n        for row in group:\n            top = max(top, row.shape[0])\n        y = self.pad(group, top)": True,
    "top = 0\n    for row in chunks:\n        top = max(top, row.shape[0])\n    y = pad_rows(top, chunks)": False,
    "for group in chunks:\n        top = None\n        for row in group:\n            n = row.size(0)\n            top = max(top, n) if top is not None else n\n        y = pad_and_join(top, group)": True,
    "for group in chunks:\n        top = 0\n        for row in group:\n            (n,) = row.shape\n            top = max(top, n)\n        y = self.pad(group, top)": True,
    "for group in chunks:\n        top = 0\n        for row in group:\n            top = max(top, row.score * 2)\n        y = pad_rows(top, group)": False,
    "for group in chunks:\n        top = 0\n        for row in group:\n            top = max(top, len(row))\n        y = show(top)": False,
}


@pytest.mark.parametrize("kept", list(KEPT))
@pytest.mark.parametrize("head", [HEAD, "import torch\n\ndevice = 'hpu'\n\n\n"])
def test_a_length_that_a_loop_keeps_and_pads_to(tmp_path: Path, kept: str, head: str) -> None:
    text = head + f"def run(self, chunks, net, show, pad_rows, pad_and_join):\n    {kept}\n    return net(y.to(device))\n"  # fmt: skip
    assert ("HPU525" in codes(reported(tmp_path, {"run.py": text}), "run.py")) == KEPT[kept]


LOGGED = {
    "self.log('loss', loss, prog_bar=True)": True,
    "self.log_dict({'loss': loss, 'n': 1}, prog_bar=True, on_step=True)": True,
    "self.log('loss', loss)": False,
    "self.log('loss', loss, prog_bar=False)": False,
    "self.log('rate', 0.1, prog_bar=True)": False,
}


@pytest.mark.parametrize("logged", list(LOGGED))
@pytest.mark.parametrize(("method", "trains"), [("training_step", True), ("validation_step", False)])  # fmt: skip
def test_what_a_progress_bar_shows_in_each_step(tmp_path: Path, logged: str, method: str, trains: bool) -> None:  # fmt: skip
    text = f"import torch\nimport pytorch_lightning as pl\n\n\nclass Net(pl.LightningModule):\n    def {method}(self, batch, n):\n        loss = torch.nn.functional.mse_loss(self(batch), batch)\n        {logged}\n        return loss\n\n\npl.Trainer(accelerator='gpu').fit(Net())\n"  # fmt: skip
    assert ("HPU513" in codes(reported(tmp_path, {"net.py": text}), "net.py")) == (LOGGED[logged] and trains)  # fmt: skip


CHOSEN = {
    "cache_implementation: str | None = None": False,
    "option = dict(cache_implementation=args.cache)": False,
    "config.cache_implementation = 'static'": True,
    "options = {'cache_implementation': 'static'}": True,
    "config = Config(cache_implementation='hybrid')": True,
    "config = Config(cache_implementation=None)": False,
}


@pytest.mark.parametrize("chosen", list(CHOSEN))
@pytest.mark.parametrize("given", ["max_new_tokens=3", "attention_mask=m, **more"])
def test_a_cache_of_fixed_size_is_one_that_somebody_chose(tmp_path: Path, chosen: str, given: str) -> None:  # fmt: skip
    text = HEAD + f"from transformers import AutoModel\n\n\n{chosen}\nnet = AutoModel.from_pretrained('a').to(device)\ny = net.generate(x, {given})\n"  # fmt: skip
    assert ("HPU527" in codes(reported(tmp_path, {"run.py": text}), "run.py")) != CHOSEN[chosen]


RUNS = {
    "model.get_intermediate_layers(x, n=1)[0]": True,
    "model.extract_features(x)": True,
    "net.get_features(x)": True,
    "meter.get_value(x)": False,
    "tokenizer.get_layers(x)": False,
}


@pytest.mark.parametrize("run", list(RUNS))
@pytest.mark.parametrize("loop", ["x, n in logger.log_every(loader, 10)", "x, n in loader"])
def test_methods_that_run_a_part_of_a_model(tmp_path: Path, run: str, loop: str) -> None:
    text = HEAD + f"@torch.no_grad()\ndef look(model, net, meter, tokenizer, logger, loader):\n    found = []\n    for {loop}:\n        x, n = x.to(device), n.to(device)\n        y = {run}\n        found.append(y)\n    return torch.cat(found)\n"  # fmt: skip
    assert ("HPU505" in codes(reported(tmp_path, {"run.py": text}), "run.py")) == RUNS[run]


GIVEN = {
    "torch.from_numpy(self.sizes)": False,
    "torch.relu(x).amax(0)": True,
}
TAKEN = ["int(sizes[0])", "sizes[0].item()", "int(sizes[1])"]


@pytest.mark.parametrize(("given", "taken"), crossed(list(GIVEN), TAKEN, rounds=3))
def test_elements_lie_where_the_whole_lies(tmp_path: Path, given: str, taken: str) -> None:
    text = HEAD + f"def crop(x, sizes):\n    return x[: {taken}]\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return crop(x, {given})\n\n\nnet = Net().to(device)\n"  # fmt: skip
    assert ("HPU513" in codes(reported(tmp_path, {"net.py": text}), "net.py")) == GIVEN[given]


#: What a step reads of a tensor, and whether the host has to wait for it.
ASKED = {
    "q.size() == (n,)": False,
    "q.size(0) > n": False,
    "q.shape == x.shape": False,
    "q.dim() == 2 and n > 1": False,
    "q.numel() // 2 == n": False,
    "len(q.size()) > 1": False,
    "q.sum() > n": True,
    "q.max().item() > n": True,
    "torch.isnan(q).any()": True,
}
MADE = ["x.sum(1)", "(x > 0).float().mean(0)", "torch.relu(x).max()"]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("test", ["assert {0}", "if {0}:\n            q = q + 1", "while n and ({0}):\n            n -= 1"])  # fmt: skip
def test_sizes_are_known_to_the_host(tmp_path: Path, asked: str, made: str, test: str) -> None:
    text = HEAD + f"class Net(nn.Module):\n    def forward(self, x: torch.Tensor, n: int):\n        q = {made}\n        {test.format(asked)}\n        return q\n\n\nnet = Net().to(device)\n"  # fmt: skip
    assert ("HPU513" in codes(reported(tmp_path, {"net.py": text}), "net.py")) == ASKED[asked]
