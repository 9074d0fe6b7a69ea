"""Scale on paper: formulas by hand, and programs whose collectives are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpushim.matrix import load
from hpushim.model import Target
from hpushim.plan.estimate import estimate, sent
from hpushim.plan.observed import Collective, Observed, Parameters
from hpushim.plan.text import render

pytestmark = pytest.mark.usefixtures("served")

M = load()
ALL = tuple(range(64))

TRAIN = """
import os, sys, torch, torch.distributed as dist, torch.nn as nn
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
world = dist.get_world_size()
model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU(), nn.Linear(64, 64, bias=False)).cuda()
how = sys.argv[1]
if how == "ddp":
    model = nn.parallel.DistributedDataParallel(model, device_ids=[0])
if how == "fsdp":
    from torch.distributed.fsdp import fully_shard
    fully_shard(model[0]); fully_shard(model[2]); fully_shard(model)
if how == "tensor":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cuda", (world // 8, 8), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
things = [None] * world
dist.all_gather_object(things, {"rank": dist.get_rank()})
assert things[-1] == {"rank": 0}
optimizer = torch.optim.AdamW(model.parameters())
for step in range(1000):
    loss = model(torch.randn(8, 64, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if how == "ddp":
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG, group=dist.new_group(range(3)))
    print("step", step)
"""


@pytest.mark.parametrize(
    ("name", "ranks", "servers", "inside", "outside"),
    [
        ("all_reduce", 8, 1, 2 * 7 / 8, 0),  # a ring of eight
        ("all_reduce", 64, 64, 0, 2 * 63 / 64),  # one card a server: a ring over the network
        ("all_reduce", 64, 8, 2 * 7 / 8, 2 * 7 / 8 / 8),
        ("all_gather_into_tensor", 64, 8, 7 / 8, 7 / 8 / 8),
        ("reduce_scatter_tensor", 8, 1, 7 / 8, 0),
        ("broadcast", 8, 1, 1, 0),
        ("broadcast", 64, 8, 1, 1 / 8),
        ("all_to_all_single", 64, 8, 7 / 64, 56 / 64),
        ("send", 2, 2, 0, 1),
        ("all_reduce", 1, 1, 0, 0),
    ],
)
def test_what_a_card_sends(
    name: str, ranks: int, servers: int, inside: float, outside: float
) -> None:
    assert sent(name, 6_400_000, ranks, servers) == (
        round(6_400_000 * inside),
        round(6_400_000 * outside),
    )


def _observed(**changes: Any) -> Observed:
    calls = [Collective("all_reduce", 4_000, ("float32",), "SUM", ALL, step) for step in (0, 1, 2)]
    calls.insert(0, Collective("broadcast", 4_000, ("float32",), "", ALL, 0))
    held = Parameters(4_000, 4_000, 4_000, 4_000, 8_000, 8_000, 3_000)
    return Observed(64, 3, calls, held, 30_000, True, True, **changes)


def test_a_step_is_told_apart_from_what_comes_before_it() -> None:
    found = estimate(_observed(), M, Target())
    assert [(one.name, one.calls) for one in found.step] == [("all_reduce", 1)]
    assert [(one.name, one.calls) for one in found.first] == [("broadcast", 1)]
    assert (found.servers, found.cards, found.memory) == (8, 8, 102106132480)
    assert found.refusals == ()


def test_memory_by_the_formulas() -> None:
    sizes = [one.bytes for one in estimate(_observed(), M, Target()).holdings]
    # P 4000, G 4000, O 8000 and the buckets 4000: of the peak 10000 are left.
    assert sizes == [30_000, 30_000, 16_000 // 64 + 2 * 3_000 + 10_000, 16_000 // 8 + 10_000]


def test_the_ports_of_the_documents_bound_the_time() -> None:
    found = estimate(_observed(), M, Target(gaudi="gaudi3"))
    (step,) = found.step
    assert found.seconds == pytest.approx(max(step.inside / (21 * 25e9), step.outside / (3 * 25e9)))
    assert estimate(_observed(), M, Target(gaudi="gaudi1")).seconds is None
    text = render(found, M)
    assert text.startswith("ESTIMATE, not a measurement")
    assert "21 inside and 3 out of a server, 200 Gbit/s each" in text


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Collective("all_reduce", 4, ("float32",), "AVG", ALL, 0), "all_reduce with AVG: unsupported"),
        (Collective("reduce_scatter_tensor", 4, ("int64",), "SUM", ALL, 0), "reduce_scatter_tensor of int64: unsupported"),
        (Collective("all_reduce", 4, ("float16",), "SUM", ALL, 0), "all_reduce of float16: changed"),
        (Collective("all_reduce", 4, ("float32",), "SUM", (0, 1, 2), 0), "a group of the devices 0, 1, 2 of a server"),
        (Collective("all_reduce", 4, ("float32",), "SUM", (1, 2), 0), "a group of the devices 1, 2 of a server"),
    ],
)  # fmt: skip
def test_what_hccl_refuses_is_told(call: Collective, said: str) -> None:
    assert said in render(estimate(Observed(64, 1, [call]), M, Target()), M)


def test_aligned_groups_are_taken() -> None:
    for ranks in ((0, 1), (2, 3), (4, 5, 6, 7), tuple(range(8)), ALL, (0, 8, 16)):
        call = Collective("all_reduce", 4, ("float32",), "SUM", ranks, 0)
        assert estimate(Observed(64, 1, [call]), M, Target()).refusals == (), ranks


def test_a_run_without_collectives_says_so() -> None:
    assert "No collectives" in render(estimate(Observed(8), M, Target()), M)


# -- programs -----------------------------------------------------------------------------


def _planned(folder: Path, how: str, world: int = 64) -> Any:
    pytest.importorskip("torch", reason="the emulated device needs torch")
    (folder / "train.py").write_text(TRAIN)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    words = [
        sys.executable,
        "-m",
        "hpushim",
        "plan",
        "--world",
        str(world),
        "--json",
        "train.py",
        how,
    ]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**clean, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "step 1" in done.stderr
    assert "step 5" not in done.stderr  # ended after the third optimizer step
    return json.loads(done.stdout)


def _calls(traffic: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (one["name"], one["reduction"], one["calls"], one["bytes"], one["ranks"]) for one in traffic
    )


SIZE = 2 * 64 * 64 * 4  # of the parameters


def test_ddp_reduces_all_gradients_once_a_step(tmp_path: Path) -> None:
    found = _planned(tmp_path, "ddp")
    assert _calls(found["step"]) == [
        ("all_reduce", "SUM", 1, 4, 3),
        ("all_reduce", "SUM", 1, SIZE, 64),
    ]
    assert ("broadcast", "", 1, SIZE, 64) in _calls(found["first"])
    told = " ".join(one["what"] for one in found["refusals"])
    assert "AVG" not in told  # under the shim an average is a sum and a division
    assert "devices 0, 1, 2" in told
    peak, replicated = found["holdings"][:2]
    assert peak["bytes"] == replicated["bytes"] >= 5 * SIZE


def test_fsdp_gathers_twice_and_scatters_once(tmp_path: Path) -> None:
    found = _planned(tmp_path, "fsdp")
    assert _calls(found["step"]) == [
        ("all_gather_into_tensor", "", 4, 2 * SIZE, 64),
        ("reduce_scatter_tensor", "SUM", 2, SIZE, 64),
    ]
    peak, _, sharded, _ = found["holdings"]
    assert peak["bytes"] == pytest.approx(sharded["bytes"], abs=1000)


def test_tensor_parallel_reduces_activations_in_a_server(tmp_path: Path) -> None:
    found = _planned(tmp_path, "tensor", 16)
    assert _calls(found["step"]) == [("all_reduce", "SUM", 1, 8 * 64 * 4, 8)]
    assert all(one["outside"] == 0 for one in found["step"])
