"""One rank: what HCCL does not take, tried under the policy of the environment; rank 0 prints what became of each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import hpushim.emulator

hpushim.emulator.enable()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from hpushim.emulator import ledger  # noqa: E402

dist.init_process_group("hccl")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
found: dict[str, Any] = {}


def attempt(name: str, run: Callable[[], Any]) -> None:
    try:
        value = run()
    except (NotImplementedError, RuntimeError) as error:
        found[name] = [type(error).__name__, str(error).splitlines()[0]]
        return
    found[name] = value


def ones(dtype: torch.dtype = torch.float32, size: int = 2, value: float = 1) -> torch.Tensor:
    return torch.full((size,), value, device="hpu").to(dtype)


def reduced(x: torch.Tensor, op: Any = dist.ReduceOp.SUM) -> list[float]:
    dist.all_reduce(x, op)
    return x.tolist()


for op in ("SUM", "MIN", "MAX", "PRODUCT", "AVG"):
    attempt(op, lambda op=op: reduced(ones(value=2), getattr(dist.ReduceOp, op)))
attempt("AVG of int64", lambda: reduced(torch.tensor([3 + RANK], device="hpu"), dist.ReduceOp.AVG))
for op in ("BAND", "BOR", "BXOR"):
    attempt(op, lambda op=op: reduced(ones(torch.int32), getattr(dist.ReduceOp, op)))
attempt("bool", lambda: reduced(ones(torch.bool)))
attempt("int16", lambda: reduced(ones(torch.int16)))
attempt("fp8", lambda: reduced(ones(torch.float8_e5m2).clone()))
attempt("digits", lambda: reduced(torch.tensor([2**24 + 1], device="hpu")))
attempt("few digits", lambda: reduced(torch.tensor([7], device="hpu")))


def list_form(dtype: torch.dtype) -> list[float]:
    out = ones(dtype)
    dist.reduce_scatter(out, [ones(dtype) for _ in range(WORLD)])
    return out.tolist()


attempt("reduce_scatter float32", lambda: list_form(torch.float32))
attempt("reduce_scatter int64", lambda: list_form(torch.int64))


def tensor_form(dtype: torch.dtype) -> list[float]:
    out = ones(dtype)
    dist.reduce_scatter_tensor(out, ones(dtype, 2 * WORLD))
    return out.tolist()


attempt("reduce_scatter_tensor int32", lambda: tensor_form(torch.int32))
attempt("reduce_scatter_tensor int64", lambda: tensor_form(torch.int64))


def exchange(dtype: torch.dtype, size: int) -> list[float]:
    out = [ones(dtype, size) for _ in range(WORLD)]
    dist.all_to_all(out, [ones(dtype, size) for _ in range(WORLD)])
    return torch.cat(out).tolist()


attempt("all_to_all even", lambda: exchange(torch.uint8, 2))
attempt("all_to_all odd", lambda: exchange(torch.uint8, 3))


def odd_bytes() -> list[float]:
    x = ones(torch.uint8, 3)
    dist.broadcast(x, 0)
    return x.tolist()


attempt("broadcast odd", odd_bytes)


def any_source() -> str:
    x = ones()
    if RANK == 0:
        for _ in range(1, WORLD):
            dist.recv(x)
    else:
        dist.send(x, 0)
    return "received"


if os.environ.get("HPUSHIM_POLICY", "observe") == "observe":
    attempt("any source", any_source)
elif RANK == 0:  # the others would wait for a receive that never comes
    attempt("any source", lambda: dist.recv(ones()))


attempt("digits of int32", lambda: reduced(torch.tensor([2**25 + 1], dtype=torch.int32, device="hpu")))  # fmt: skip
host_group = dist.new_group(backend="gloo")
attempt("gloo", lambda: dist.all_reduce(ones(), group=host_group))
if RANK == 0:
    sites = [s for s in ledger.snapshot()["sites"] if s["kind"] == "collective_limit"]
    print(
        json.dumps({"found": found, "limits": len(sites), "line": sites[0]["line"] if sites else 0})
    )
dist.barrier()
dist.destroy_process_group()
