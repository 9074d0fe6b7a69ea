"""Plans that compute nothing: the same figures as of a run that computes, and models that this machine cannot hold."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import warm

from hpushim import matrix

TRAIN = """
import os, sys, resource, torch, torch.distributed as dist, torch.nn as nn, torch.nn.functional as F
how, width, layers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.dropout = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (-1, 64)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.dropout(self.down(F.gelu(self.up(x))))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(1000, width), nn.Linear(width, 1000, bias=False)
        self.pictures, self.blocks = nn.Conv1d(width, width, 3, padding=1), nn.ModuleList(Block() for _ in range(layers))
        nn.init.trunc_normal_(self.head.weight, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids)
        x = x + F.relu(self.pictures(x.transpose(1, 2))).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

if how == "tensor":
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cuda", (2, 8), mesh_dim_names=("data", "tensor"))  # which begins the process group
else:
    dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = Model()
if how in ("ddp", "tensor"):
    model = model.cuda()
if how == "ddp":
    model = nn.parallel.DistributedDataParallel(model, device_ids=[0])
if how == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
if how == "fsdp1":
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.cuda.current_device())
if how == "tensor":
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    for block in model.blocks:
        parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters(), foreach=how != "tensor")
for step in range(10):
    ids = torch.randint(0, 1000, (2, 65)).cuda()
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    if how != "tensor":
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    print("kB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    optimizer.step()
    optimizer.zero_grad()
"""

VALUES = """
import torch, torch.nn as nn
LARGE = 4_000_000
# Of the device: what is small and known is computed, what is large is not.
assert torch.arange(10, device="cuda").sum().item() == 45
mask = torch.tensor([True, False, True, True], device="cuda")
rows = torch.randn(4, 1_000_000, device="cuda")
assert rows[mask].shape == (3, 1_000_000)
assert rows.double().sum(1).dtype is torch.float64 and rows.t().contiguous().shape == (1_000_000, 4)
views = rows.split(2)
assert views[0].data_ptr() == rows.data_ptr() and torch.cuda.memory_allocated() < 50_000_000
assert torch.ones(LARGE, device="cuda").sum().item() == 0  # a value that is not there
assert (rows > 0).nonzero().shape == (4_000_000, 2)  # all, for which of them is not known
assert rows.masked_select(rows > 0).shape == (4_000_000,)
assert rows.topk(2, dim=1).indices.max().item() == 0
out = torch.empty(0, device="cuda")
torch.add(rows, 1, out=out)
assert out.shape == rows.shape
# Of the host: a model is made and filled there.
layer = nn.Linear(1000, 1000)
nn.init.orthogonal_(layer.weight)
assert layer.weight.t().reshape(-1).shape == (1_000_000,) and layer.bias.abs().sum() > 0
assert torch.zeros_like(layer.weight).shape == (1000, 1000)
moved = layer.cuda()
assert torch.equal(moved.bias.cpu(), layer.bias.cpu()) and moved(torch.zeros(2, 1000, device="cuda")).shape == (2, 1000)
assert torch.tensor([1.0, 2.0]).add(1).tolist() == [2.0, 3.0]
torch.save(layer.state_dict(), "layer.pt")
try:
    rows @ rows
except RuntimeError as error:
    assert "1000000" in str(error), error
else:
    raise AssertionError("shapes that do not fit are told of")
optimizer = torch.optim.SGD(moved.parameters(), lr=0.1)
moved(torch.randn(8, 1000, device="cuda")).sum().backward()
optimizer.step()
print("all as it should be")
"""


def _planned(
    folder: Path, program: str, *words: str, options: tuple[str, ...] = ()
) -> tuple[Any, str]:
    pytest.importorskip("torch", reason="the emulated device needs torch")
    (folder / "train.py").write_text(program)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    done = warm.run(
        [sys.executable, "-m", "hpushim", "plan", "--json", *options, "train.py", *words],
        cwd=folder,
        env={**clean, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("how", ["ddp", "fsdp", "fsdp1", "tensor"])
def test_the_figures_are_those_of_a_run_that_computes(tmp_path: Path, how: str) -> None:
    world = ("--world", "16")
    real, _ = _planned(tmp_path, TRAIN, how, "256", "2", options=world)
    fake, _ = _planned(tmp_path, TRAIN, how, "256", "2", options=(*world, "--fake"))
    assert real["steps"] == fake["steps"] == 3
    assert real["step"]
    for part in ("step", "first", "peak", "holdings", "refusals", "seconds"):
        assert real[part] == fake[part], part
    assert real["left_out"] is None
    assert fake["left_out"]["operators"] > 100
    assert fake["left_out"]["computed"] == {}


def test_a_model_larger_than_this_machine_is_planned_in_little_memory(tmp_path: Path) -> None:
    options = ("--world", "64", "--target", "gaudi2", "--fake")
    found, told = _planned(tmp_path, TRAIN, "ddp", "8192", "8", options=options)
    assert found["peak"] > 130e9  # parameters, gradients, buckets, and two states of Adam
    assert found["left_out"]["host"] > 25e9  # it was made on the host
    assert max(int(line.split()[1]) for line in told.splitlines() if line.startswith("kB")) < 2e6
    whole = sum(one["bytes"] for one in found["step"] if one["name"] == "all_reduce")
    matrices = 8 * 12 * 8192**2 + 3 * 8192**2 + 2 * 1000 * 8192
    assert whole == pytest.approx(4 * matrices, rel=0.001)
    assert found["peak"] > 5 * whole
    assert found["overrun"]["line"].startswith("train.py:")
    card = matrix.load().generations["gaudi2"].memory_bytes
    in_use = found["overrun"]["in_use"]
    assert in_use <= card < in_use + found["overrun"]["asked"]
    fits = {one["way"].split()[0]: one["fits"] for one in found["holdings"]}
    assert not fits["as"]
    assert fits["sharded"]


def test_what_is_small_and_known_is_computed_and_the_rest_has_its_shape(tmp_path: Path) -> None:
    found, told = _planned(tmp_path, VALUES, options=("--fake",))
    assert "all as it should be" in told
    assert not (tmp_path / "layer.pt").exists()
    left = found["left_out"]
    assert left["saved"] == {"torch.save": 1}
    assert set(left["estimated"]) == {"aten::nonzero", "aten::masked_select"}
    line = next(at for at, text in enumerate(VALUES.splitlines(), 1) if "not there" in text)
    assert left["reads"][f"train.py:{line}"] == 1


def test_the_mode_is_that_of_a_run_and_the_cards_are_those_of_a_server(tmp_path: Path) -> None:
    program = "import os, torch; print('lazy is', os.environ['PT_HPU_LAZY_MODE'], torch.cuda.device_count())\n"
    _, told = _planned(tmp_path, program, options=("--mode", "lazy", "--world", "64"))
    assert "lazy is 1 8" in told
    found, told = _planned(tmp_path, program, options=("--mode", "compile"))
    assert "lazy is 0" in told
    assert any("estimated as eager mode" in note for note in found["notes"])
