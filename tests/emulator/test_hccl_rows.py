"""What hccl does not do, as the matrix has it."""

from __future__ import annotations

import types
from typing import Any

import pytest

from hpushim.emulator import hccl
from hpushim.model import Target


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("unsupported", [True, False])
def test_what_the_matrix_calls_unsupported_is_refused(lazy: bool, unsupported: bool) -> None:
    rows = {name: types.SimpleNamespace(rule=f"R {name}", note="It is NOT there.", names=(f"torch.distributed.{name}", "other")) for name in ("dtypes in collectives", "aborting a collective", "ReduceOp.BAND")}  # fmt: skip
    asked: list[Any] = []

    def assess(row: Any, target: Target) -> Any:
        asked.append((target.gaudi, target.stack, target.mode))
        return types.SimpleNamespace(status="unsupported" if unsupported else "supported")

    matrix: Any = types.SimpleNamespace(row=rows.get, assess=assess, find=lambda name: [rows["ReduceOp.BAND"]] if name == "torch.distributed.ReduceOp.*" else [])  # fmt: skip
    profile: Any = types.SimpleNamespace(gaudi="gaudi3", release="1.21", lazy=lazy)
    found = hccl._refusals(matrix, profile)
    note = "it is NOT there"
    limits = [("dtype", "R dtypes in collectives", note), ("digits", "R dtypes in collectives", note)]  # fmt: skip
    more = [("abort", "R aborting a collective", note), ("ReduceOp.BAND", "R ReduceOp.BAND", note), ("other", "R ReduceOp.BAND", note)]  # fmt: skip
    assert found == limits + more * unsupported
    assert set(asked) == {("gaudi3", "1.21", "lazy" if lazy else "eager")} and len(asked) == 2
